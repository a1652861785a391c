"""Whole runs of the default preset on a toy machine: one stage, falling rate, averaged weights, a proxy of transfer."""

from pathlib import Path

import pytest
import torch

from crossfeed.cli.render.results import show_training
from crossfeed.errors import ConfigError, TrainingError
from crossfeed.model.model_file import read_model_file
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.world_model import WorldModel
from crossfeed.training.history import Row, read_history
from crossfeed.training.optimiser import WeightAverage
from crossfeed.training.run import RunResult, train
from crossfeed.training.run_config import planned
from tests.training.conftest import small_config, toy_table

FEW = {"training.steps_per_epoch": 2, "training.finetune_epochs": 1}


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run that is long enough to learn something."""
    changes = {
        "training.finetune_epochs": 6,
        "training.steps_per_epoch": 16,
        "training.learning_rate": 1e-2,
        "training.average_decay": 0.9,
    }
    return train(toy_table(sessions=12), small_config(changes, "crossfeed"), tmp_path_factory.mktemp("run") / "out")


def test_there_is_one_stage_and_no_pretrained_body(learned: RunResult) -> None:
    assert set(learned.summary["stages"]) == {"finetune"}
    assert not (learned.folder / "pretrained.safetensors").exists()
    assert isinstance(WorldModel.load(learned.model), SensorModel)


def test_history_tells_rate_forecast_and_the_proxy_of_another_machine(learned: RunResult) -> None:
    rows = read_history(learned.folder / "history.parquet")
    assert len(rows) == 6
    for name in ("learning_rate", "train_crps", "train_squared", "rmse", "crps", "other_machine_crps"):
        assert all(isinstance(row[name], float) for row in rows), name
    rates = [row["learning_rate"] for row in rows]
    assert rates == sorted(rates, reverse=True)
    assert all(row["score"] == pytest.approx(0.5 * (row["crps"] + row["other_machine_crps"])) for row in rows)
    assert all("target_rank" not in row for row in rows)


def test_it_beats_the_floors_and_uses_commands(learned: RunResult) -> None:
    validation = learned.summary["validation"]
    for metric in ("rmse", "mae"):
        assert validation["model"][metric] < validation["persistence"][metric]
        assert validation["model"][metric] < validation["linear drift"][metric]
    assert validation["shuffled_command_ratio"] > 1.2


def test_the_file_holds_the_average_of_the_epoch_that_was_kept(learned: RunResult) -> None:
    rows = read_history(learned.folder / "history.parquet")
    kept = min(rows, key=lambda row: row["score"])
    assert learned.summary["stages"]["finetune"]["best_epoch"] == kept["epoch"]
    assert learned.summary["validation"]["model"]["rmse"] == pytest.approx(kept["rmse"], rel=1e-5)


def test_the_terminal_shows_every_horizon_and_no_latents(
    learned: RunResult, capsys: pytest.CaptureFixture[str]
) -> None:
    show_training(learned.summary, learned.model)
    shown = capsys.readouterr().out
    for horizon, rmse in learned.summary["validation"]["model"]["rmse_by_horizon"].items():
        (line,) = [line for line in shown.splitlines() if f"RMSE, {horizon} ahead" in line]
        assert f"{rmse:.3f}" in line
    assert "rank" not in shown
    assert f"model: {learned.model}" in shown


def test_the_planned_epochs_are_part_of_the_run(tmp_path: Path) -> None:
    config = small_config({"training.steps_per_epoch": 1000, "training.finetune_epochs": None}, "crossfeed")
    assert planned(config, 400).training.finetune_epochs == round(1080 * 8 / 25)
    short = planned(small_config({"training.finetune_epochs": 3}, "crossfeed"), 400)
    assert short.training.finetune_epochs == 3
    result = train(toy_table(), small_config(FEW, "crossfeed"), tmp_path / "run")
    assert read_model_file(result.model).provenance["config"]["training"]["finetune_epochs"] == 1


def test_pretraining_what_has_nothing_to_pretrain_is_refused() -> None:
    """It ended with an empty sum in the first step."""
    with pytest.raises(ConfigError, match="nothing to pretrain"):
        small_config({"training.pretrain_epochs": 2, "training.initialisation": "body_fresh_head"}, "crossfeed")


def test_several_members_and_machines_train_together(tmp_path: Path) -> None:
    tables = [toy_table("a"), toy_table("b", sessions=7, seed=1, absent=("current_1", "current_2"))]
    result = train(tables, small_config(FEW | {"model.members": 2}, "crossfeed"), tmp_path / "run")
    model = WorldModel.load(result.model)
    assert isinstance(model, SensorModel)
    first, second = model.network.past[0].weight
    assert not torch.equal(first, second)
    assert all(value is not None for value in result.summary["validation"]["model"]["rmse_by_channel"].values())


def test_a_loss_that_is_no_number_stops_and_names_the_term(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[SensorModel] = []
    original = SensorModel.__init__

    def remember(self: SensorModel, *arguments: object) -> None:
        original(self, *arguments)  # type: ignore[arg-type]
        models.append(self)

    def poison(_: Row) -> None:
        models[0].network.near.weight.data[0, 0, 0] = torch.nan

    monkeypatch.setattr(SensorModel, "__init__", remember)
    with pytest.raises(TrainingError, match="crps is no number in step 1 of finetune epoch 2"):
        train(toy_table(), small_config(name="crossfeed"), tmp_path / "run", on_epoch=poison)


def test_the_average_takes_its_weight_from_a_tensor_without_asking_the_host() -> None:
    """`_foreach_lerp_` reads a tensor's value on the host, which ends the capture of a step on a GPU."""
    parameter = torch.nn.Parameter(torch.zeros(3, device="meta"))
    WeightAverage({"weight": parameter}).follow(torch.tensor(0.5, device="meta"))
    parameter = torch.nn.Parameter(torch.zeros(3))
    average = WeightAverage({"weight": parameter})
    with torch.no_grad():
        parameter.fill_(4.0)
    average.follow(torch.tensor(0.25))
    assert average.tensors()["weight"].tolist() == [1.0, 1.0, 1.0]
    with average.applied():
        assert parameter.tolist() == [1.0, 1.0, 1.0]
    assert parameter.tolist() == [4.0, 4.0, 4.0]
