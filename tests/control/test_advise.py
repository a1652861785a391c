"""`crossfeed control plan`: files for a person, and every bad input explained."""

import csv
import json

import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.control.advise import advise
from crossfeed.control.task import read_task
from crossfeed.errors import ConfigError, ProgramError, TableError
from crossfeed.logs.table import Table
from crossfeed.programs.parse import read_program
from tests.control.conftest import logged, small_model

TASK = read_task(None, {"limits": ["spindle_torque<=40"], "objective": {"base_load": "1.4 kW"}})


def test_the_command_writes_everything_and_touches_nothing(files, tmp_path):
    before = files.program.read_bytes()
    words = ["control", "plan", str(files.model), "--history", str(files.log), "--program", str(files.program)]
    words += ["--limit", "spindle_torque<=1000", "--out", str(tmp_path), "--write-program", "--samples", "20"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    content = json.loads((tmp_path / "plan.json").read_text())
    assert content["stretches"]["acted"] > 0
    assert content["seconds"]["planned"] < content["seconds"]["as_written"]
    assert 0.0 <= content["added_chance"] <= content["task"]["risk"]
    assert "added chance of passing a limit" in result.output
    assert "(allowed: 5 %)" in result.output
    with (tmp_path / "blocks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {"line", "seconds", "margin", "why", "peak_spindle_torque", "energy_saved"} <= set(rows[0])
    several = [row for row in rows if "stretches" in row["why"]]  # a block said what one of its stretches saves
    assert all(float(row["why"].split()[1]) == pytest.approx(float(row["gain"]), rel=1e-2) for row in several)
    assert sum(float(row["seconds"]) for row in rows) == pytest.approx(content["seconds"]["planned"], rel=1e-3)
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    assert (tmp_path / "schedule.csv").read_text().startswith("seconds,position,line")
    assert files.program.read_bytes() == before
    copy = tmp_path / "small.crossfeed.mpf"
    old, new = read_program(files.program).moves, read_program(copy).moves
    faster = [b.feed / a.feed for a, b in zip(old, new) if a.feed]
    assert max(faster) > 1.1
    assert "crossfeed: F" in copy.read_text()


def test_a_freed_spindle_that_stays_is_said(files):
    free = read_task(None, {"limits": ["spindle_torque<=1000"], "spindle": {"min": 0.9, "max": 1.1}})
    advice = advise(files.model, files.log, str(files.program), free, samples=20)
    assert (advice.decision.spindle_T == 1.0).all()
    assert any("spindle stays at 100 %" in text for text in advice.content["warnings"])


def test_impossible_limits(files):
    with pytest.raises(ConfigError, match="impossible"):
        advise(files.model, files.log, str(files.program), read_task(None, {"limits": ["spindle_torque<=0.001"]}))


def test_a_limit_on_a_sensor_the_machine_lacks(files):
    table = logged()
    sensors = table.sensors.copy()
    sensors[:, 10] = float("nan")
    lacking = Table(table.schema, table.groups, table.time, sensors, table.commands, 1.0, {})
    with pytest.raises(ConfigError, match="absent from the history"):
        advise(files.model, lacking, str(files.program), read_task(None, {"limits": ["spindle_motor_temp<=90"]}))


def test_a_program_that_was_not_understood(files, tmp_path):
    strange = tmp_path / "strange.mpf"
    strange.write_text("N10 G90\nN20 G1 X=NOBODY_KNOWS F100\nN30 X10\n")
    with pytest.raises(ProgramError, match="not understood"):
        advise(files.model, files.log, str(strange), TASK)


def test_a_model_deaf_to_commands(files, tmp_path):
    small_model(logged()).save(tmp_path / "deaf.safetensors", {"shuffled_command_ratio": 1.0001})
    with pytest.raises(ConfigError, match="deaf to commands"):
        advise(tmp_path / "deaf.safetensors", files.log, str(files.program), TASK)


def test_a_history_that_is_too_short(files):
    with pytest.raises(TableError, match="rows up to"):
        advise(files.model, files.log, str(files.program), TASK, at=5.0)


def test_a_deadline_that_cannot_be_met_is_the_best_found_and_marked(files):
    task = read_task(None, {"objective": {"minimise": "energy", "within": "3 s"}})
    advice = advise(files.model, files.log, str(files.program), task, samples=20)
    assert advice.content["deadline"]["met"] is False
    assert advice.content["seconds"]["planned"] > 3.0


def test_a_tool_to_leave_that_is_not_there(files):
    with pytest.raises(ConfigError, match="does not use it"):
        advise(files.model, files.log, str(files.program), read_task(None, {"leave": ["T77"]}))


@pytest.mark.parametrize(("lowest", "backwards"), [(0.0, False), (-10.0, True)])
def test_a_log_that_never_turns_backwards_counts_speeds_without_sign(files, tmp_path, lowest, backwards):
    """A spindle that stood still at times was taken for one that tells its direction."""
    table, program = logged(), tmp_path / "left.mpf"
    table.commands[0, 0] = lowest
    program.write_text(files.program.read_text().replace("S3000 M3", "S3000 M4"))
    advice = advise(files.model, table, str(program), TASK, samples=20)
    speeds = advice.timeline.commands_TA[:, advice.timeline.spindle_column]
    assert (speeds.min() < 0.0) == backwards
    assert speeds.max() == pytest.approx(0.0 if backwards else 3000.0)
