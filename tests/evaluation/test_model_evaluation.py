"""A model file facing a table: the right side, the right floors, the right refusals."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.configuration import override
from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.judge import evaluate, evaluate_target
from crossfeed.evaluation.opened_model import open_model
from crossfeed.evaluation.result import Evaluation
from crossfeed.evaluation.setup import set_up
from crossfeed.files import read_sealed
from crossfeed.logs.align import align
from crossfeed.logs.table import Table
from crossfeed.model.interface import Plan, Prediction
from crossfeed.model.sensors.model import SensorContext, SensorModel
from crossfeed.schema import Channel, Schema
from crossfeed.training.run import train
from crossfeed.windows.split import split_table
from tests.evaluation.conftest import TrainedRun, small_config
from tests.evaluation.small_machine import SCHEMA, small_table


def test_a_table_the_model_was_trained_on_is_judged_on_its_test_sessions(trained_run: TrainedRun) -> None:
    content = evaluate(trained_run.folder, trained_run.source, device="cpu")
    split = split_table(Table.read(trained_run.source))
    assert content.part == "test"
    assert content.trained_on_this_table
    assert sorted(content.runs) == sorted(split.test)
    assert set(content.scores) == {"run", "persistence", "linear drift"}
    assert content.scores["persistence"]["nll"] is not None
    assert content.scores["persistence"]["skill_rmse"] == pytest.approx(0.0, abs=1e-9)


def test_another_machine_is_judged_whole_with_runs_as_units(trained_run: TrainedRun, tmp_path: Path) -> None:
    content = evaluate(
        trained_run.folder, trained_run.target, source=[trained_run.source], suite="full", out=tmp_path, device="cpu"
    )
    assert content.part == "all"
    assert len(content.runs) == 5
    assert set(content.by_channel["run"]) == {"current", "power"}, "the thermometer it lacks is not judged"
    assert content.by_channel["run"]["current"].unit == "A"
    scale = open_model(trained_run.folder).model.normaliser.sensor_scale[0]
    row = content.by_channel["run"]["current"]
    assert row.physical["rmse"] == pytest.approx(row.metrics["rmse"] * scale)
    assert len(content.comparisons[0]) == 2
    for section in ("robustness", "slower_logging", "channel_curve", "conformal", "command_use"):
        assert "run" in getattr(content, section)
    assert content.conformal["run"]["split"]["calibrated_on"] == ["lathe/run0", "lathe/run1"]
    assert Evaluation.from_dict(read_sealed(tmp_path / "evaluation.json")) == content


def test_without_the_source_the_floors_are_points(trained_run: TrainedRun) -> None:
    content = evaluate(trained_run.folder, trained_run.target, device="cpu")
    assert not content.naive_have_spread
    assert content.scores["persistence"]["coverage90"] is None
    assert content.scores["persistence"]["rmse"] > 0


def test_an_all_constant_channel_is_said_to_be_constant(trained_run: TrainedRun, tmp_path: Path) -> None:
    table = Table.read(trained_run.target)
    table.sensors[:, 1] = 2.5
    table.write(tmp_path / "flat.parquet")
    content = evaluate(trained_run.folder, tmp_path / "flat.parquet", device="cpu")
    assert content.by_channel["run"]["power"].constant
    assert content.by_channel["run"]["power"].metrics["r2"] is None
    assert content.by_channel["run"]["power"].metrics["skill_rmse"] is None


def test_a_target_that_shares_no_channel_is_refused(trained_run: TrainedRun) -> None:
    table = Table.read(trained_run.target)
    table.sensors[:] = np.nan
    with pytest.raises(TableError, match=r"shows none of the sensors[\s\S]*current, power, temperature"):
        set_up(open_model(trained_run.folder, "cpu"), table)


def test_a_side_of_a_foreign_table_and_a_wrong_source_are_refused(trained_run: TrainedRun) -> None:
    opened, target = open_model(trained_run.folder, "cpu"), Table.read(trained_run.target)
    with pytest.raises(ConfigError, match="has no test side"):
        set_up(opened, target, part="test")
    with pytest.raises(TableError, match="not trained on the source table"):
        set_up(opened, target, sources=[small_table(seed=99)])


def test_columns_in_another_order_and_unit_make_no_difference(trained_run: TrainedRun) -> None:
    table = Table.read(trained_run.target)
    watts = Channel(name="power", quantity="power", unit="W")
    shuffled = Schema(name="other", sensors=(SCHEMA.sensors[2], watts), commands=SCHEMA.commands[::-1])
    columns = [2, 1]
    moved = replace(
        table, schema=shuffled, sensors=table.sensors[:, columns] * [1.0, 1000.0], commands=table.commands[:, ::-1]
    )
    back = align(moved, SCHEMA)
    np.testing.assert_allclose(back.sensors[:, 1], table.sensors[:, 1])
    np.testing.assert_array_equal(back.commands, table.commands)
    assert np.isnan(back.sensors[:, 0]).all(), "a sensor it lacks is absent"


def test_sensors_that_the_model_never_met_are_named(trained_run: TrainedRun, tmp_path: Path) -> None:
    table = Table.read(trained_run.target)
    hum = Channel(name="hum", quantity="load", unit="%")
    more = SCHEMA.model_copy(update={"sensors": (*SCHEMA.sensors, hum)})
    sensors = np.concatenate([table.sensors, np.ones((len(table), 1))], 1)
    replace(table, schema=more, sensors=sensors).write(tmp_path / "more.parquet")
    assert evaluate(trained_run.folder, tmp_path / "more.parquet", device="cpu").sensors_not_read == ("hum",)
    arguments = ["evaluate", str(trained_run.folder), "--device", "cpu", "--table", str(tmp_path / "more.parquet")]
    assert "never met before, so not read: hum" in CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}).output
    assert evaluate(trained_run.folder, trained_run.target, device="cpu").sensors_not_read == ()
    with pytest.raises(ConfigError, match="cannot read hum: it knows its sensors by name"):
        evaluate(trained_run.folder, tmp_path / "more.parquet", device="cpu", new_sensors=True)


def test_an_absent_command_is_stated_once_and_not_refused(trained_run: TrainedRun, tmp_path: Path) -> None:
    table = Table.read(trained_run.target)
    fewer = Schema(name="no axis", sensors=SCHEMA.sensors, commands=SCHEMA.commands[:1])
    replace(table, schema=fewer, commands=table.commands[:, :1]).write(tmp_path / "no_axis.parquet")
    table.commands[:, 1] = np.nan
    table.write(tmp_path / "empty_axis.parquet")
    arguments = ["evaluate", str(trained_run.folder), "--device", "cpu", "--table"]
    for name in ("no_axis", "empty_axis"):
        content = evaluate(trained_run.folder, tmp_path / f"{name}.parquet", device="cpu")
        assert content.absent_commands == {"feed_x": 0.0}
        assert content.windows > 0
    found = CliRunner().invoke(app, [*arguments, str(tmp_path / "no_axis.parquet")], env={"COLUMNS": "200"})
    assert found.output.count("the table has no feed_x; it is taken as 0 throughout") == 1
    table.commands[:] = np.nan
    with pytest.raises(TableError, match="has no command of the model"):
        align(table, SCHEMA)


def test_the_target_pass_judges_models_and_floors_on_the_same_windows(trained_run: TrainedRun) -> None:
    model = open_model(trained_run.folder, "cpu").model
    sources, targets = [Table.read(trained_run.source)], [Table.read(trained_run.target)]
    content = evaluate_target({"locked": (model, trained_run.config)}, sources, targets)
    assert set(content.scores) == {"locked", "persistence", "linear drift"}
    alone = evaluate(trained_run.folder, trained_run.target, source=[trained_run.source], device="cpu")
    assert content.scores["locked"] == pytest.approx(alone.scores["run"])
    assert content.windows == alone.windows
    assert len(content.runs) == 5
    json.dumps(content.to_dict(), allow_nan=False)


def test_the_command_prints_tables_and_writes_json(trained_run: TrainedRun, tmp_path: Path) -> None:
    arguments = ["evaluate", str(trained_run.folder), "--table", str(trained_run.target), "--device", "cpu"]
    found = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)], env={"COLUMNS": "200"})
    assert found.exit_code == 0, found.output
    assert "Command use" in found.output
    assert "May it be trusted on lathe? " in found.output
    for channel in ("current", "power"):
        assert re.search(rf"^  {channel}: (yes|with care|no|cannot be said), ", found.output, re.MULTILINE)
    assert "persistence" in found.output
    content = read_sealed(tmp_path / "evaluation.json")
    printed = CliRunner().invoke(app, [*arguments, "--json"])
    assert json.loads(printed.stdout) == content


def test_a_model_that_returns_nan_is_left_out_and_the_command_fails(
    trained_run: TrainedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = SensorModel.decode

    def broken(model: SensorModel, context: SensorContext, plan: Plan) -> Prediction:
        prediction = decode(model, context, plan)
        return replace(prediction, distribution=prediction.distribution.map(lambda values: values * np.nan))

    monkeypatch.setattr(SensorModel, "decode", broken)
    arguments = ["evaluate", str(trained_run.folder), "--table", str(trained_run.target), "--device", "cpu"]
    found = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)], env={"COLUMNS": "200"})
    assert found.exit_code == 1
    assert "left out: run: Forecaster 'run' returned" in found.output
    content = Evaluation.from_dict(read_sealed(tmp_path / "evaluation.json"))
    assert set(content.scores) == {"persistence", "linear drift"}
    assert content.comparisons == ()


def test_a_table_with_rows_of_another_length_is_refused(trained_run: TrainedRun) -> None:
    opened = open_model(trained_run.folder, "cpu")
    slow = replace(Table.read(trained_run.target), period=5.0)
    with pytest.raises(TableError, match="has a row every 5 s, the model was trained on one every 1 s"):
        set_up(opened, slow)


def test_a_model_of_several_tables_could_be_given_one_source_only(trained_run: TrainedRun, tmp_path: Path) -> None:
    first, second = Table.read(trained_run.source), small_table(runs=14, rows=60, seed=4)
    second = replace(second, groups=tuple(replace(group, machine="second") for group in second.groups))
    second.write(tmp_path / "second.parquet")
    fast = {"training.finetune_epochs": 1, "training.pretrain_epochs": 1, "training.steps_per_epoch": 2}
    config = override(small_config(normaliser="robust"), fast)
    train([first, second], config, tmp_path / "run", device="cpu")
    both = [str(trained_run.source), str(tmp_path / "second.parquet")]
    words = ["evaluate", str(tmp_path / "run"), "--table", str(trained_run.target), "--device", "cpu", "--json"]
    alone = CliRunner().invoke(app, [*words, "--source", both[0]])
    assert isinstance(alone.exception, ConfigError)
    assert "all 2 tables" in alone.exception.expected
    found = CliRunner().invoke(app, [*words, "--source", both[1], "--source", both[0]])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["naive_have_spread"]
    own = evaluate(tmp_path / "run", both[1], source=both[:1], device="cpu")
    assert own.table is not None
    assert own.table.machines == ("second",)
    assert own.part == "test"
    assert all(run.startswith("second/") for run in own.runs), "judged on its own windows alone"
