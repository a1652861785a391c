"""The bundle: six finite components in one space, a replay that matches training, an anchor that finds strangers."""

import json
import math
from pathlib import Path

import pytest
import torch

from crossfeed.configuration import override
from crossfeed.errors import ConfigError
from crossfeed.evaluation.bundle import SUITE, _masked, measure_bundle
from crossfeed.logs.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.training.run import train
from tests.evaluation.conftest import TrainedRun, small_config
from tests.evaluation.small_machine import normaliser_of, small_table, window_set

COMPONENTS = {"clean", "schema_drop", "masked", "long_horizon", "calibration", "ssl"}


@pytest.fixture(scope="module")
def bundle(mended_run: TrainedRun) -> dict:
    return bundle_of(mended_run.folder, mended_run)


def bundle_of(folder: Path, run: TrainedRun, shared: tuple[str, ...] = ("current", "power")) -> dict:
    model, summary = WorldModel.load(folder / "model.safetensors"), json.loads((folder / "summary.json").read_text())
    config = run.config if folder == run.folder else small_config("mended", normaliser="robust")
    return measure_bundle(model, [Table.read(run.source)], config, summary, shared, folder / "bundle.json")


def test_the_six_components_are_finite_and_on_disk(bundle: dict, mended_run: TrainedRun) -> None:
    assert set(bundle["components"]) == COMPONENTS
    assert all(math.isfinite(value) for value in bundle["components"].values())
    assert json.loads((mended_run.folder / "bundle.json").read_text()) == bundle
    assert 0.0 <= bundle["components"]["calibration"] <= 0.9
    by_horizon = [row["rmse"] for row in bundle["details"]["clean_by_horizon"].values()]
    assert bundle["components"]["long_horizon"] == max(by_horizon)
    assert 0.0 < bundle["ssl_scale_free"] < 10.0


def test_a_network_without_latents_has_no_self_supervised_component(trained_run: TrainedRun) -> None:
    found = bundle_of(trained_run.folder, trained_run)
    assert set(found["components"]) == COMPONENTS - {"ssl"}
    assert all(math.isfinite(value) for value in found["components"].values())
    assert (found["ssl_scale_free"], found["collapsed"], found["health"]) == (None, False, {})
    assert found["replay_rmse"] == pytest.approx(trained_run.summary["validation"]["model"]["rmse"], rel=1e-6)


def test_the_saved_model_gives_the_numbers_of_training_again(bundle: dict, mended_run: TrainedRun) -> None:
    at_training = mended_run.summary["validation"]["model"]["rmse"]
    assert bundle["replay_rmse"] == pytest.approx(at_training, rel=1e-6)
    assert bundle["components"]["clean"] == pytest.approx(at_training, rel=1e-5)
    assert bundle["command_ratio"] > 0.9


def test_every_candidate_is_judged_under_the_same_masks() -> None:
    """How many of 4800 entries are hidden, and how many of 600 sensors in all their rows, held still."""
    table = small_table(runs=6)
    batch = window_set(table, normaliser_of(table)).batch(torch.arange(200))
    hidden_BKC = batch.m_BKC & ~_masked(SUITE)(batch, torch.empty(0)).m_BKC
    assert (int(hidden_BKC.sum()), int(hidden_BKC.all(1).sum())) == (1981, 105)


def test_schema_drop_is_judged_on_the_shared_sensors_alone(bundle: dict) -> None:
    details = bundle["details"]
    assert details["schema_drop"]["count"] == details["clean_on_shared_sensors"]["count"]
    assert details["schema_drop"]["count"] == pytest.approx(2 / 3 * details["clean"]["count"])


def test_the_same_run_measured_twice_gives_the_same_bundle(bundle: dict, mended_run: TrainedRun) -> None:
    assert bundle_of(mended_run.folder, mended_run) == bundle


def test_a_robust_candidate_is_measured_in_the_same_space_as_the_others(
    bundle: dict, mended_run: TrainedRun, tmp_path: Path
) -> None:
    config = small_config("mended", normaliser="robust")
    fast = config.training.model_copy(update={"finetune_epochs": 1, "steps_per_epoch": 4})
    table = Table.read(mended_run.source)
    train(table, config.model_copy(update={"training": fast}), tmp_path / "robust", device="cpu")
    robust = bundle_of(tmp_path / "robust", mended_run)
    for name in ("persistence_rmse", "source_mean_rmse"):
        assert robust["anchor"][name] == pytest.approx(bundle["anchor"][name], rel=1e-5)
    for name in ("entries", "windows", "space"):
        assert robust["anchor"][name] == bundle["anchor"][name]


def test_shared_sensors_unknown_to_the_model_are_refused(mended_run: TrainedRun) -> None:
    with pytest.raises(ConfigError, match="None of the shared sensors"):
        bundle_of(mended_run.folder, mended_run, shared=("vibration",))
    with pytest.raises(ConfigError, match="none given"):
        bundle_of(mended_run.folder, mended_run, shared=())


def test_the_same_body_got_another_self_supervised_score_with_other_weights_of_its_loss(
    bundle: dict, mended_run: TrainedRun, tmp_path: Path
) -> None:
    model = WorldModel.load(mended_run.folder / "model.safetensors")
    for name in ("pretrained.safetensors", "summary.json"):
        if (mended_run.folder / name).exists():
            (tmp_path / name).write_bytes((mended_run.folder / name).read_bytes())
    changes = {"masks.mode": "random", "masks.ratio": 0.8, "objectives.weights.latent": 3.0}
    config = override(mended_run.config, changes)
    other = measure_bundle(
        model, [Table.read(mended_run.source)], config, mended_run.summary, ("current", "power"),
        tmp_path / "bundle.json",
    )  # fmt: skip
    assert other["components"]["ssl"] == bundle["components"]["ssl"]
    assert other["ssl_scale_free"] == bundle["ssl_scale_free"]
    assert other["ssl_as_trained"] > 1.3 * bundle["ssl_as_trained"], "what the paper scored moves with them"
