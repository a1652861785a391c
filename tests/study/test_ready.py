from pathlib import Path

import numpy as np
import pytest

from crossfeed.configuration import differences, override
from crossfeed.errors import ConfigError
from crossfeed.model.model_file import read_model_file
from crossfeed.study.ready import READY, arms
from crossfeed.study.study import Study
from crossfeed.training.run import train
from crossfeed.training.run_config import RunConfig, preset
from tests.study.conftest import SHORT, InProcess, begin
from tests.training.conftest import toy_table

EVERY = [(kind, arm) for kind in READY for arm in list(arms(kind, preset("mended")))[1:]]
# One step a stage is enough to see that two arms are not the same training.
ONE_STEP = SHORT | {
    "training.steps_per_epoch": 1,
    "training.health.windows": 8,
    "training.validation_windows": 8,
}


def weights(config: RunConfig, folder: Path) -> bytes:
    result = train(toy_table("source", sessions=8, rows=50), config, folder, device="cpu")
    tensors = read_model_file(result.model).tensors
    return b"".join(np.ascontiguousarray(tensors[name].numpy()).tobytes() for name in sorted(tensors))


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("references")
    base = override(preset("mended", "tiny"), ONE_STEP)
    return {kind: weights(next(iter(arms(kind, base).values())), folder / kind) for kind in READY}


@pytest.mark.parametrize(("kind", "arm"), EVERY)
def test_every_arm_trains_something_else_than_its_reference(
    kind: str, arm: str, references: dict[str, bytes], tmp_path: Path
) -> None:
    base = override(preset("mended", "tiny"), ONE_STEP)
    assert weights(arms(kind, base)[arm], tmp_path / "run") != references[kind]


@pytest.mark.parametrize("name", ["paper", "mended"])
@pytest.mark.parametrize("kind", READY)
def test_no_two_arms_are_the_same_and_all_share_one_split(kind: str, name: str) -> None:
    configs = list(arms(kind, preset(name)).values())
    for number, one in enumerate(configs):
        assert one.data == configs[0].data
        assert all(differences(one, two) for two in configs[number + 1 :])


def test_every_factor_of_the_papers_table_2b_has_an_arm() -> None:
    reference, *variants = arms("ablations", preset("paper")).values()
    changed = {name for variant in variants for name in differences(reference, variant)}
    assert changed == {
        "model.predictor.injection", "masks.ratio", "objectives.weights.latent", "objectives.weights.vicreg",
        "model.blocks.norm", "objectives.latent_target", "objectives.regularise", "training.ema_momentum",
    }  # fmt: skip
    factors = [differences(reference, variant) for variant in variants]
    assert all(
        len(factor) == 1 or set(factor) == {"objectives.latent_target", "objectives.regularise"} for factor in factors
    )
    assert (reference.model.predictor.injection, reference.masks.mode, reference.masks.ratio) == (
        "token",
        "mixed",
        0.35,
    )
    assert (reference.objectives.weights.schema, reference.objectives.weights.recovery) == (0.0, 0.0)


def test_the_likelihood_alone_gets_as_many_steps_as_both_stages() -> None:
    base = preset("mended")
    found = arms("no-latent", base)
    assert found["likelihood_only_all_epochs"].training.stages == {"finetune": 200}
    assert base.training.stages == {"pretrain": 100, "finetune": 100}
    assert found["likelihood_only"].objectives.active("finetune").keys() == {"physical"}


def test_a_sensor_network_has_no_latents_to_ablate() -> None:
    assert len(arms("channel-drop", preset("crossfeed"))) == 5
    for kind in ("ablations", "initialisation", "no-latent"):
        with pytest.raises(
            ConfigError, match=r"only the paper's network has[\s\S]*channel-drop[\s\S]*--protocol mended"
        ):
            arms(kind, preset("crossfeed"))


def test_epochs_left_to_the_windows_cannot_be_added_up() -> None:
    base = override(preset("mended", "tiny"), {"training.finetune_epochs": None})
    with pytest.raises(ConfigError, match=r"training\.finetune_epochs"):
        arms("no-latent", base)


def test_a_ready_study_runs_on_the_source_alone_and_can_be_extended(tmp_path: Path) -> None:
    study = begin(tmp_path / "study", target=False, settings=ONE_STEP)
    assert study.ready("no-latent", seeds=1) == 4
    study.search(InProcess("cpu"))
    assert {run.status for run in study.store.runs()} == {"finished"}
    lines = [line for line in study.contrasts() if line.metric == "clean"]
    assert [line.arm for line in lines] == list(arms("no-latent", study.config))
    assert study.ready("no-latent", seeds=2) == 4
    assert study.verify().problems == ()


def test_an_unknown_ready_study_or_arm_is_named(tmp_path: Path) -> None:
    study = begin(tmp_path / "study", target=False)
    with pytest.raises(ConfigError, match="no ready study 'beauty'"):
        study.ready("beauty", 1)
    with pytest.raises(ConfigError, match="'initialisation' has no arm beauty"):
        study.ready("initialisation", 1, ["beauty"])
    assert study.store.runs() == []


def test_the_same_command_goes_on_but_not_with_other_tables(tmp_path: Path) -> None:
    study = begin(tmp_path / "study", target=False)
    source = tmp_path / "study-tables" / "source.parquet"
    assert Study.open_or_init(study.store.folder, [source]).protocol == study.protocol
    toy_table("other").write(tmp_path / "other.parquet")
    with pytest.raises(ConfigError, match="other source tables"):
        Study.open_or_init(study.store.folder, [tmp_path / "other.parquet"])
