"""The list of differences from the paper in docs/method.md, row by row against the code."""

import inspect
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from crossfeed.baselines.budget import named_budget
from crossfeed.distribution import Gaussian
from crossfeed.errors import ConfigError
from crossfeed.evaluation import bundle
from crossfeed.evaluation.statistics import paired_tests
from crossfeed.ingest.resample import Resampling
from crossfeed.study import opening, protocol
from crossfeed.study.candidates import candidates_of
from crossfeed.study.record.outcomes import COLLAPSED, has_numbers
from crossfeed.study.record.rules import PROTOCOLS
from crossfeed.study.record.score import run_scores
from crossfeed.study.record.store import Run
from crossfeed.training.run_config import preset
from crossfeed.windows.corrupt import MaskConfig, corrupt
from tests.study.conftest import begin
from tests.study.record.test_score import outcome

DOCUMENT = Path(__file__).parents[2] / "docs" / "method.md"


def candidates(_: Path) -> None:
    assert len(candidates_of("paper", preset("paper"))) == 20
    assert candidates_of("crossfeed", preset("crossfeed"))["preset"] == preset("crossfeed")


def cross_attention(_: Path) -> None:
    twenty = candidates_of("paper", preset("paper")).values()
    assert sum(config.model.predictor.injection == "cross_attention" for config in twenty) == 15


def score(_: Path) -> None:
    assert (PROTOCOLS["paper"].score, PROTOCOLS["crossfeed"].score) == ("paper", "robust")
    runs = [outcome(name, [value, 1.0, 1.0, 1.0, 1.0, 1.0]) for name, value in (("a", 1.0), ("b", 2.0), ("c", 900.0))]
    spread = {by: run_scores(runs, by)["b", 0] - run_scores(runs, by)["a", 0] for by in ("paper", "robust")}
    assert spread["paper"] < 0.01 < spread["robust"], "one stranger flattens the paper's score"


def self_supervised_component(_: Path) -> None:
    told = inspect.getsource(bundle._ssl)
    assert 'score("paper", SUITE, ObjectiveConfig())' in told
    assert 'score("paper", config.masks, own if' in told


def gate_latents(_: Path) -> None:
    found = {name: preset(name).training.health.latents for name in PROTOCOLS}
    assert found == dict.fromkeys(("mended", "crossfeed"), ("context", "target")) | {"paper": ("predicted",)}


def flagged_runs(_: Path) -> None:
    flagged = {"invalid": f"{COLLAPSED} at the selected pretraining checkpoint: flat", "bundle": {}}
    run = Run("a-0", "a", 0, "ablation x", {}, "invalid", "", flagged)
    assert has_numbers(run)
    assert "has_numbers(run)" in inspect.getsource(opening.unseal)


def locked_seed(_: Path) -> None:
    assert {name: rules.locked_seed for name, rules in PROTOCOLS.items()} == {
        "paper": "best", "mended": "median", "crossfeed": "median",
    }  # fmt: skip


def ingest_rule(folder: Path) -> None:
    with pytest.raises(ConfigError, match="rule crossfeed"):
        begin(folder / "refused", protocol="paper")
    begin(folder / "taken", rule="paper")


def rows_from_the_future(_: Path) -> None:
    source = inspect.getsource(Resampling)
    assert "interpolate" not in source
    assert "backward_fill" not in source


def block_masks(_: Path) -> None:
    x, m = torch.zeros(50, 32, 4), torch.ones(50, 32, 4, dtype=torch.bool)
    hidden = ~corrupt(x, m, MaskConfig(mode="block", ratio=0.35), torch.Generator().manual_seed(0))
    edges = torch.nn.functional.pad(hidden.transpose(1, 2).int(), (1, 1)).diff(dim=2)
    lengths = torch.nonzero(edges == -1)[:, 2] - torch.nonzero(edges == 1)[:, 2]
    assert 2 <= lengths.min() <= lengths.max() <= 12


def empty_views(_: Path) -> None:
    x, m = torch.zeros(50, 8, 3), torch.ones(50, 8, 3, dtype=torch.bool)
    m[:, :, 0] = False
    kept = corrupt(x, m, MaskConfig(mode="channel", channel_drop=0.999), torch.Generator().manual_seed(0)).any(1)
    assert not kept[:, 0].any()
    assert kept.any(1).all()


def sign_flip_test(_: Path) -> None:
    (found,) = paired_tests({"a": np.array([1.0, 1.1, 1.2]), "b": np.array([0.9, 0.9, 0.9])}, "a")
    assert found.floor == found.p_sign_flip == 0.25


def likelihood(_: Path) -> None:
    zero = torch.zeros(1)
    assert float(Gaussian(zero, zero + 1.0).nll(zero)) == pytest.approx(0.5 * math.log(2 * math.pi))


def official_code(_: Path) -> None:
    budget = named_budget("paper")
    assert (budget.official_epochs, budget.official_seed) == (100, 20260820)


def order_of_openings(_: Path) -> None:
    assert "_need_confirmatory_first(store)" in inspect.getsource(opening.unseal)


CHECKS: tuple[Callable[[Path], None], ...] = (
    candidates, cross_attention, score, self_supervised_component, gate_latents, flagged_runs, locked_seed,
    ingest_rule, rows_from_the_future, block_masks, empty_views, sign_flip_test, likelihood, official_code,
    order_of_openings,
)  # fmt: skip


def test_readme_promised_every_difference_and_the_list_lacked_the_studys() -> None:
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| what | in the paper"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(line.split("|")[1].strip())
    named = [check.__name__.replace("_", " ") for check in CHECKS]
    assert [row.replace("-", " ") for row in rows] == named
    assert protocol.PROTOCOL_VERSION >= 3


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_documented_difference_is_one_of_the_code(check: Callable[[Path], None], tmp_path: Path) -> None:
    check(tmp_path)
