"""The planner of the benchmark, which decides while a program runs: what docs/control.md says of it was measured so."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from crossfeed.control.earlier_runs import LoggedRows
from crossfeed.control.load_forecast import CuttingLaw
from crossfeed.control.policy import LearnedPolicy
from crossfeed.control.task import read_task
from crossfeed.control.trial import along, trial
from crossfeed.schema import canonical
from tests.control.conftest import logged, small_model

TASK = read_task(None, {"limits": ["spindle_torque<=8"]})


@pytest.fixture
def receding(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("control_receding")


def rows_of(past, run, name):
    sensors = np.concatenate([past.sensors_RC, [row.sensors for row in run.rows]])
    return LoggedRows(sensors, np.concatenate([past.commands_RA, [row.commands for row in run.rows]]), name)


def test_with_an_earlier_run_it_saves_time_and_without_one_the_first_rows_stay_as_written(receding, piece, timeline):
    model, past, ones = small_model(logged()), receding.Past.idle(piece, 3), np.ones(len(timeline))
    taught = trial(piece, timeline, TASK, along(ones, ones), past.state)
    rows, start = rows_of(past, taught, timeline.name), receding.Past.idle(piece, 9)
    law = CuttingLaw.from_logs(canonical(), rows.sensors_RC, rows.commands_RA)
    written = receding.controlled(piece, timeline, TASK, receding.AsWritten(), start)
    planned = receding.controlled(piece, timeline, TASK, receding.Planner(model, law, [rows]), start)
    assert planned.cost < 0.97 * written.cost
    assert planned.passed <= written.passed
    alone = receding.Planner(model, law, [LoggedRows(past.sensors_RC, past.commands_RA)])
    first = receding.controlled(piece, timeline, TASK, alone, start)
    assert (first.knobs[:18] == 1.0).all()


def test_a_policy_turns_the_knobs_no_faster_than_the_task_allows(receding, piece, timeline):
    wild = LearnedPolicy(((np.full((1, 9), 50.0), np.zeros(1)),), TASK, {})
    run = receding.controlled(piece, timeline, TASK, receding.PolicyController(wild), receding.Past.idle(piece))
    assert np.ptp(run.knobs[:, 0]) > 0.05
    assert np.abs(np.diff(run.knobs[:, 0])).max() <= TASK.slew + 1e-9
