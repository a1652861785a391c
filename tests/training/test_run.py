"""Whole runs on a toy machine: files, selection, health, early stopping, initialisations, refusals."""

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from crossfeed.cli.render.results import remarks
from crossfeed.configuration import override, read_yaml
from crossfeed.errors import ConfigError, TrainingError
from crossfeed.files import read_sealed
from crossfeed.logs.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.training.config import HealthConfig, TrainingConfig
from crossfeed.training.history import read_history
from crossfeed.training.run import RunResult, train
from crossfeed.training.run_config import preset
from crossfeed.training.validate import Validator
from crossfeed.windows.split_tables import DataConfig
from tests.training.conftest import small_config, toy_table

ONLY_LATENT = {f"objectives.weights.{name}": 0.0 for name in ("vicreg", "schema", "recovery")}
ONE_EPOCH = {"training.pretrain_epochs": 1, "training.finetune_epochs": 1, "training.steps_per_epoch": 2}


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run that is long enough to learn something."""
    changes = {
        "training.pretrain_epochs": 2,
        "training.finetune_epochs": 4,
        "training.steps_per_epoch": 16,
        "training.learning_rate": 6e-3,
    }
    return train(toy_table(sessions=12), small_config(changes), tmp_path_factory.mktemp("run") / "out")


def test_folder_holds_everything(learned: RunResult) -> None:
    names = {path.name for path in learned.folder.iterdir()}
    assert names == {
        "run.json",
        "config.yaml",
        "pretrained.safetensors",
        "model.safetensors",
        "history.parquet",
        "summary.json",
        "log.txt",
    }
    assert read_sealed(learned.folder / "summary.json") == json.loads(json.dumps(learned.summary))


def test_saved_configuration_reads_back(learned: RunResult) -> None:
    again = override(preset("paper", "large"), read_yaml(learned.folder / "config.yaml"))
    assert again.training.finetune_epochs == 4
    assert again.model.blocks.width == 16


def test_history_has_a_row_for_every_epoch(learned: RunResult) -> None:
    rows = read_history(learned.folder / "history.parquet")
    assert [row["stage"] for row in rows] == ["pretrain"] * 2 + ["finetune"] * 4
    for name in ("train_latent", "validation_latent", "score", "probe_r2", "target_rank", "context_varying"):
        assert all(isinstance(row[name], float) for row in rows), name
    assert all(row["rmse"] is None and row["validation_physical"] is None for row in rows[:2])
    assert all(row["rmse"] == row["score"] for row in rows[2:])


def test_pretraining_keeps_a_later_epoch_than_the_first(learned: RunResult) -> None:
    """The paper's raw-scale score always kept the first epoch, so its pretraining never happened."""
    assert learned.summary["stages"]["pretrain"]["best_epoch"] > 0


def test_training_beats_the_floors_and_uses_commands(learned: RunResult) -> None:
    validation = learned.summary["validation"]
    for metric in ("rmse", "mae"):
        assert validation["model"][metric] < validation["persistence"][metric]
        assert validation["model"][metric] < validation["linear drift"][metric]
    assert validation["shuffled_command_ratio"] > 1.2
    assert not validation["weak_command_use"]
    assert validation["persistence"]["nll"] is None


def test_summary_holds_the_epoch_that_was_kept(learned: RunResult) -> None:
    """The model file must hold the best epoch's weights, not the last one's."""
    rows = [row for row in read_history(learned.folder / "history.parquet") if row["stage"] == "finetune"]
    facts = learned.summary["stages"]["finetune"]
    assert facts["score"] == min(row["score"] for row in rows)
    assert learned.summary["validation"]["model"]["rmse"] == facts["score"]


def test_model_file_carries_its_provenance(learned: RunResult) -> None:
    from crossfeed.model.model_file import read_model_file

    provenance = read_model_file(learned.model).provenance
    assert provenance["config"]["training"]["finetune_epochs"] == 4
    assert provenance["tables"] == [toy_table(sessions=12).fingerprint()]
    assert provenance["split"] == learned.summary["data"]["split"]
    assert provenance["windows"] == learned.summary["data"]["windows"]
    assert WorldModel.load(learned.model).horizons == (1, 2, 4)


def test_default_stays_healthy(learned: RunResult) -> None:
    assert learned.summary["stages"]["pretrain"]["collapse"] is None


def test_without_regulariser_the_collapse_is_flagged(tmp_path: Path) -> None:
    changes = ONLY_LATENT | {
        "training.pretrain_epochs": 4,
        "training.finetune_epochs": 0,
        "training.steps_per_epoch": 16,
        "training.learning_rate": 6e-3,
    }
    result = train(toy_table(sessions=12), small_config(changes), tmp_path / "run")
    rows = read_history(result.folder / "history.parquet")
    assert "varies between windows" in rows[-1]["collapse"]
    assert not (result.folder / "summary.json").read_text().count("NaN")


def test_a_collapse_was_named_but_not_explained(tmp_path: Path, table: Table) -> None:
    summary = train(table, small_config(ONE_EPOCH), tmp_path / "run").summary
    assert not any("Collapsed means" in line for line in remarks(summary))
    summary["stages"]["pretrain"]["collapse"] = "effective rank 0.02, below 0.1"
    told = " ".join(remarks(summary))
    assert "pretrain: latents collapsed (effective rank 0.02, below 0.1)" in told
    assert "Remedies: the default preset" in told


def test_early_stopping_ends_a_stage(tmp_path: Path, table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    changes = {"training.learning_rate": 1e-30, "training.patience": 2, "training.pretrain_epochs": 9}
    changes |= {"training.ema_momentum": 1.0, "training.finetune_epochs": 9}
    summary = train(table, small_config(changes), tmp_path / "run").summary
    assert [summary["stages"][stage]["epochs"] for stage in ("pretrain", "finetune")] == [3, 3]
    assert summary["stages"]["finetune"]["best_epoch"] == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "less if 2 epochs in a row bring nothing" in told
    assert "finetune: stopped after epoch 3 of 9, because none was better than epoch 1" in told


@pytest.mark.parametrize("how", ["scratch", "body_fresh_head", "complete_checkpoint"])
def test_three_initialisations_of_one_pretrained_body(learned: RunResult, tmp_path: Path, how: str) -> None:
    changes = ONE_EPOCH | {"training.initialisation": how}
    pretrained = None if how == "scratch" else learned.folder / "pretrained.safetensors"
    result = train(toy_table(sessions=12), small_config(changes), tmp_path / "run", pretrained=pretrained)
    report = result.summary["initialisation"]
    assert report["how"] == how
    assert result.summary["stages"].keys() == {"finetune"}
    heads = {name for name in report["missing"] if name.partition(".")[0] in ("head", "recovery")}
    if how == "scratch":
        assert report["loaded"] == ()
    elif how == "body_fresh_head":
        assert set(report["missing"]) == heads != set()
    else:
        assert report["missing"] == ()


def test_several_machines_with_other_sensors_train_together(tmp_path: Path) -> None:
    tables = [toy_table("a"), toy_table("b", sessions=7, seed=1, absent=("current_1", "current_2"))]
    result = train(tables, small_config(ONE_EPOCH), tmp_path / "run")
    assert result.summary["data"]["machines"] == ["a", "b"]
    assert all(value is not None for value in result.summary["validation"]["model"]["rmse_by_channel"].values())


def test_loss_that_is_no_number_stops_and_names_the_term(tmp_path: Path, table: Table) -> None:
    def poison(row: Any) -> None:
        if row["epoch"] == 0:
            models[0].recovery.layers[0].weight.data[0, 0] = torch.nan

    models: list[WorldModel] = []
    original = WorldModel.__init__

    def remember(self: WorldModel, *arguments: Any) -> None:
        original(self, *arguments)
        models.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorldModel, "__init__", remember)
        with pytest.raises(TrainingError, match="recovery is no number in step 1 of pretrain epoch 2"):
            train(table, small_config(), tmp_path / "run", on_epoch=poison)
    resumed = train(table, small_config(), tmp_path / "run", resume=True)
    untouched = train(table, small_config(), tmp_path / "other")
    assert resumed.summary["validation"] == untouched.summary["validation"]


def test_validation_loss_that_is_infinite_stops_too(
    tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Validator, "losses", lambda *_: ({"latent": float("inf")}, 1.0))
    with pytest.raises(TrainingError, match="validation latent is infinite after pretrain epoch 1"):
        train(table, small_config(), tmp_path / "run")


def test_occupied_folder_is_refused(tmp_path: Path, learned: RunResult, table: Table) -> None:
    with pytest.raises(ConfigError, match="already holds a run"):
        train(table, small_config(), learned.folder)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not the folder of a run"):
        train(table, small_config(), tmp_path)


def test_plans_that_contradict_themselves_are_refused(learned: RunResult, tmp_path: Path, table: Table) -> None:
    pretrained = learned.folder / "pretrained.safetensors"
    with pytest.raises(ConfigError, match="pretrain_epochs is 0"):
        train(table, small_config({"training.pretrain_epochs": 0}), tmp_path / "a")
    with pytest.raises(ConfigError, match="initialisation is 'scratch'"):
        train(table, small_config({"training.initialisation": "scratch"}), tmp_path / "b", pretrained=pretrained)
    with pytest.raises(ConfigError, match=r"model\.context: 8 there, 9 asked"):
        train(table, small_config({"model.context": 9}), tmp_path / "c", pretrained=pretrained)
    assert list(tmp_path.iterdir()) == []


def test_unusable_device_and_precision_are_refused(tmp_path: Path, table: Table) -> None:
    with pytest.raises(ConfigError, match="device 'quantum'"):
        train(table, small_config(), tmp_path / "a", device="quantum")
    with pytest.raises(ConfigError, match="bf16 only by emulation"):
        train(table, small_config({"training.precision": "bf16"}), tmp_path / "a", device="cpu")


def test_too_few_windows_are_refused_before_the_folder_is_claimed(tmp_path: Path, table: Table) -> None:
    with pytest.raises(TrainingError, match="too few to judge"):
        train(table, small_config({"data.stride": 40, "training.batch_size": 2}), tmp_path / "run")
    with pytest.raises(TrainingError, match="not enough for one batch of 5000"):
        train(table, small_config({"training.batch_size": 5000}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_missing_tensorboard_is_named(tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match="package 'tensorboard'"):
        train(table, small_config(), tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


def test_tensorboard_gets_every_number(tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, float, int]] = []

    class Writer:
        def __init__(self, log_dir: str) -> None:
            assert log_dir.endswith("tensorboard")

        def add_scalar(self, *scalar: Any) -> None:
            sent.append(scalar)

        def flush(self) -> None:
            pass

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    train(table, small_config(ONE_EPOCH), tmp_path / "run", tensorboard=True)
    assert {("pretrain/score", 0), ("finetune/rmse", 0)} <= {(name, epoch) for name, _, epoch in sent}


def test_every_config_leaf_is_read(tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that nothing reads is a promise that nothing keeps."""
    read: set[str] = set()
    for kind in (TrainingConfig, HealthConfig, DataConfig):

        def record(self: Any, name: str, kind: type = kind) -> Any:
            if name in kind.model_fields:
                read.add(f"{kind.__name__}.{name}")
            return object.__getattribute__(self, name)

        monkeypatch.setattr(kind, "__getattribute__", record)
    train(table, small_config(), tmp_path / "run")
    expected = {
        f"{kind.__name__}.{name}" for kind in (TrainingConfig, HealthConfig, DataConfig) for name in kind.model_fields
    }
    assert expected - read == set()
