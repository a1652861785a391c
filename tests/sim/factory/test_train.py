"""Learning from a fleet, and the model we ship: any machine, any sensors, from the first minute."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import crossfeed as cf
from crossfeed.cli import app
from crossfeed.cli.simulate import train as fleet_train_command
from crossfeed.errors import ConfigError
from crossfeed.logs.table import Table
from crossfeed.model.model_file import locate_model, read_model_file
from crossfeed.sim.factory.generate import draw_table
from crossfeed.sim.factory.shards import SETTINGS, STEPS, FleetPlan, fleet_config, generate

OTHER_SEED = 902  # of a fleet that nobody was trained on


@pytest.fixture(scope="module")
def stranger() -> Table:
    (table,) = draw_table(OTHER_SEED, [3], minutes=4)
    return table


def test_a_fleet_becomes_a_model_that_has_met_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, small in (("training.batch_size", 16), ("training.validation_windows", 64)):
        monkeypatch.setitem(SETTINGS, name, small)
    generate(tmp_path / "fleet", FleetPlan(machines=8, minutes=2, seed=5), jobs=1)
    arguments = ["fleet", "train", str(tmp_path / "fleet"), "--out", str(tmp_path / "run"), "--size", "tiny"]
    done = CliRunner().invoke(app, [*arguments, "--steps", "1", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    file = read_model_file(tmp_path / "run" / "model.safetensors")
    assert file.normaliser.is_placeholder
    assert file.provenance["config"]["data"]["split_by"] == "machine"
    assert {"current spindle", "feed", "rotational speed"} <= file.provenance["usual_scales"].keys()


def test_a_folder_without_a_fleet_cannot_be_trained_on(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["fleet", "train", str(tmp_path), "--out", str(tmp_path / "run")])
    assert isinstance(done.exception, ConfigError)
    assert "holds no fleet" in str(done.exception)


def test_the_steps_asked_for_are_the_steps_done() -> None:
    for steps in (1, 2500, 36_000):
        config = fleet_config(steps=steps).training
        assert config.steps_per_epoch * config.finetune_epochs == steps  # type: ignore[operator]
    assert config.steps_per_epoch == 2000
    with pytest.raises(ConfigError, match="teach nothing"):
        fleet_config(steps=0)


def test_the_command_does_as_many_steps_as_the_shipped_model_had() -> None:
    assert inspect.signature(fleet_train_command).parameters["steps"].default == STEPS
    file = read_model_file(locate_model("fleet"))
    training = file.provenance["config"]["training"]
    assert training["steps_per_epoch"] * training["finetune_epochs"] == STEPS


def test_the_shipped_model_was_made_as_the_command_makes_it() -> None:
    file = read_model_file(locate_model("fleet"))
    said = file.provenance["config"]
    for name, value in SETTINGS.items():
        section, key = name.split(".")
        assert said[section][key] == value, name
    assert locate_model("fleet").stat().st_size <= 8e6


def test_the_card_names_the_file_it_describes() -> None:
    card = (locate_model("fleet").parent / "CARD.md").read_text(encoding="utf-8")
    assert read_model_file(locate_model("fleet")).sha256 in card


def test_a_path_called_fleet_goes_before_the_shipped_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet").mkdir()
    with pytest.raises(cf.CrossfeedError, match="no model in the folder"):
        cf.load("fleet")


def test_the_shipped_model_forecasts_a_machine_it_never_met_better_than_its_last_value(stranger: Table) -> None:
    result = cf.evaluate("fleet", stranger, device="cpu")
    name = next(name for name in result.scores if name not in ("persistence", "linear drift"))
    assert result.scores[name]["rmse"] < result.scores["persistence"]["rmse"]
    assert 0.8 < result.scores[name]["coverage90"] <= 1.0


def test_the_shipped_model_answers_what_if_from_the_command_line(stranger: Table, tmp_path: Path) -> None:
    stranger.write(tmp_path / "log.parquet")
    arguments = ["forecast", "fleet", "--history", str(tmp_path / "log.parquet"), "--at", "90", "--commands", "table"]
    done = CliRunner().invoke(app, [*arguments, "--device", "cpu"])
    assert done.exit_code == 0, done.output
    said = cf.load("fleet", "cpu").forecast(stranger, "table", at=90.0)
    assert np.isfinite(said.quantile(0.9)[:, np.isfinite(stranger.sensors).any(0)]).all()
