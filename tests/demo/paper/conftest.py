"""The paper at a size for tests: every chapter, logs of some minutes, two candidates, a few steps of training."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossfeed.demo.paper import settings, source, story
from crossfeed.demo.paper.settings import EXTENTS, Extent, PaperSettings
from crossfeed.demo.paper.source import PaperRun
from crossfeed.demo.paper.story import run_paper
from crossfeed.errors import CrossfeedError
from crossfeed.evaluation.baselines.budget import Budget
from crossfeed.sim.physics.production import Order
from crossfeed.sim.simulate import Scale
from crossfeed.study import candidates as paper_candidates
from crossfeed.study import lock, ready, study
from crossfeed.study.candidates import PAPER_CANDIDATES
from crossfeed.study.ready import READY

MICRO = Extent(
    Scale(Order(rows=900, sessions=9, raw_rows=1_500, duplicates=2, lost_rows=1), cycles=330_000),
    EXTENTS["tiny"].settings
    | {
        "model.context": 8,
        "model.horizons": [1, 2, 4],
        "model.blocks.width": 16,
        "training.steps_per_epoch": 4,
        "training.pretrain_epochs": 1,
        "training.finetune_epochs": 1,
        "training.validation_windows": 16,
        "training.health.windows": 16,
    },
    Budget(epochs=2, pretext_epochs=1, steps=3, batch_size=16, validation_windows=16),
    baseline_seeds=1,
)
FEW = ("schema_and_command_recovery", "per_horizon_vicreg")
ARMS = (("initialisation", "pretrained_body"), ("ablations", "latent_weight_4"))
# What is changed for tests: module, name, value.
CHANGES: tuple[tuple[Any, str, Any], ...] = (
    (settings, "EXTENTS", EXTENTS | {"tiny": MICRO}),
    (paper_candidates, "PAPER_CANDIDATES", {name: PAPER_CANDIDATES[name] for name in FEW}),
    (paper_candidates, "SIZES", {}),
    (source, "MINIMUM_SEEDS", 2),
    (PaperSettings, "initialisation_seeds", 1),
    (source, "NO_LATENT", ("likelihood_only",)),
    (story, "BASELINES", ("persistence", "mlp")),
    (ready, "READY", READY | {name: replace(READY[name], arms={arm: READY[name].arms[arm]}) for name, arm in ARMS}),
    # After eight steps no model listens to the commands; the lock is not what is tested here.
    (lock, "refusals", lambda _: []),
    (study, "refusals", lambda _: []),
    (source, "refusals", lambda _: []),
)  # fmt: skip


def stop(_: PaperRun) -> Any:
    """A chapter in the middle that cannot go on."""
    raise CrossfeedError("The disk is full.", remedy="Free some space.")


@pytest.fixture(scope="module")
def micro() -> Iterator[PaperSettings]:
    """The settings of a rehearsal, with all that is changed for tests in place."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in CHANGES:
            patch.setattr(module, name, value)
        yield PaperSettings(size="tiny", seeds=2)


@pytest.fixture(scope="module")
def told(micro: PaperSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a rehearsal that was stopped after the search and went on to its end."""
    paper = PaperRun(tmp_path_factory.mktemp("paper") / "rehearsal", micro, jobs=1, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "confirm", stop)
        with pytest.raises(CrossfeedError, match=r"(?s)disk is full.*What is finished stays"):
            run_paper(paper)
    before = (paper.folder / "chapters" / "search.json").stat().st_mtime_ns
    run_paper(paper)
    assert (paper.folder / "chapters" / "search.json").stat().st_mtime_ns == before
    return paper.folder
