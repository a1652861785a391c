"""What a log says about the program to come: earlier runs are found, and limits hold where they passed before."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from crossfeed.control.earlier_runs import LoggedRows, around, find_runs
from crossfeed.control.load_calibration import LoadCalibration, forecast_scores, student_tail
from crossfeed.control.load_forecast import CAUTIOUS, CuttingLaw, physical
from crossfeed.control.planner import PlannerConfig, plan_whole
from crossfeed.control.task import read_task
from crossfeed.control.timeline import Timeline
from crossfeed.control.trial import along, idle_start, trial
from crossfeed.scenarios.rollout import mean_rollout
from crossfeed.schema import canonical
from tests.control.conftest import CONTEXT, HORIZONS, known_forecast, logged, small_model

TORQUE = canonical().sensor_names.index("spindle_torque")
TABLE, NAME = logged(), "spindle_torque"
MODEL, AHEAD = small_model(logged()), HORIZONS[-1]


@pytest.fixture(scope="module")
def model():
    return small_model(logged())


def run_of(piece, timeline, seed, feed=1.0):
    past, state = idle_start(piece, seed)
    knobs = along(np.full(len(timeline), feed), np.ones(len(timeline)))
    run = trial(piece, timeline, read_task(None, {}), knobs, state)
    rows = [*past, *run.rows]
    return run, LoggedRows(np.array([r.sensors for r in rows]), np.array([r.commands for r in rows]), timeline.name)


@pytest.fixture(scope="module")
def earlier(piece, timeline):
    return run_of(piece, timeline, 3)


def test_a_run_of_the_same_program_is_found_where_it_was(timeline, earlier):
    run, rows = earlier
    found = find_runs(timeline, [rows])
    assert len(found) == 1
    own = around(found[0][:, TORQUE])[timeline.cutting]
    true = np.array([row.truth[TORQUE] for row in run.rows])[: len(timeline)][timeline.cutting]
    assert (own >= 0.8 * true).mean() > 0.9


def test_other_programs_and_runs_under_an_override_are_no_earlier_runs(piece, timeline, earlier):
    assert find_runs(timeline, [replace(earlier[1], program="another")]) == []
    assert find_runs(timeline, [run_of(piece, timeline, 4, feed=0.8)[1]]) == []


def calibration(model, timeline, rows, highest):
    return LoadCalibration.of(model, timeline, read_task(None, {"limits": [f"spindle_torque<={highest}"]}), rows)


def test_a_deeper_cut_ahead_is_known_from_the_earlier_run(model, piece, timeline, earlier):
    """Limits were passed in the first seconds of a layer whose depth no command tells."""
    known = calibration(model, timeline, [earlier[1], run_of(piece, timeline, 5)[1]], 5.0)
    assert len(known.runs) == 2
    from_runs = known.from_runs(risk=0.01)
    true = np.array([row.truth[TORQUE] for row in run_of(piece, timeline, 6)[0].rows])[: len(timeline)]
    assert (true <= from_runs.high["spindle_torque"])[timeline.cutting].mean() > 0.95


def test_without_a_log_to_vouch_for_it_nothing_goes_faster(model, piece, timeline, law):
    """With no row in the cut known, every limit is in danger: the program stays as written."""
    past, _ = idle_start(piece, 1)
    rows = LoggedRows(np.array([row.sensors for row in past]), np.array([row.commands for row in past]))
    known, forecast = calibration(model, timeline, [rows], 8.0), known_forecast(timeline, 4.0)
    task = read_task(None, {"limits": ["spindle_torque<=8"]})
    assert known.summary(0.05)["basis"] == "forecast"
    careful, _ = plan_whole(known.from_forecast(forecast, 0.05), law, task, canonical(), PlannerConfig())
    careless, _ = plan_whole(forecast, law, task, canonical(), PlannerConfig())
    assert careless.feed_T.max() > 1.1
    assert careful.feed_T.max() == 1.0


def test_with_an_earlier_run_it_saves_time_and_keeps_the_limit(model, piece, timeline, earlier):
    run, rows = earlier
    at = np.minimum(run.position.astype(int), len(timeline) - 1)
    highest = 1.3 * max(row.truth[TORQUE] for row, index in zip(run.rows, at) if timeline.cutting[index])
    task = read_task(None, {"limits": [f"spindle_torque<={highest:.3f}"]})
    law = CuttingLaw.from_logs(canonical(), rows.sensors_RC, rows.commands_RA)
    known = LoadCalibration.of(model, timeline, task, [rows, run_of(piece, timeline, 5)[1]])
    decision, _ = plan_whole(known.from_runs(task.risk), law, task, canonical(), PlannerConfig())
    ones, (_, state) = np.ones(len(timeline)), idle_start(piece, 9)
    written = trial(piece, timeline, task, along(ones, ones), state)
    planned = trial(piece, timeline, task, along(decision.feed_T, decision.spindle_T), state)
    assert planned.cost < 0.97 * written.cost
    assert planned.passed <= written.passed


def test_a_single_earlier_run_is_believed_up_to_a_twentieth_of_its_mean_load(model, timeline, earlier):
    known = calibration(model, timeline, [earlier[1]], 5.0)
    assert len(known.runs) == 1
    paths = known.from_runs(risk=0.01, samples=400).paths["spindle_torque"]
    load = known.runs[0][:, TORQUE]
    assert paths.mean(axis=0) == pytest.approx(load, abs=0.02)
    assert paths.std(axis=0).mean() == pytest.approx(0.05 * np.abs(load[timeline.cutting]).mean(), rel=0.1)


@pytest.mark.parametrize(("load", "unit"), [(1.5, 2.0), (2.5, 2.5)])
def test_light_cuts_are_compared_by_a_quarter_of_their_limit(timeline, load, unit):
    """A light cut that comes out twice as high is no reason to expect that of a heavy one."""
    task = read_task(None, {"limits": ["spindle_torque<=8"]})
    run_TC = np.full((len(timeline), len(canonical().sensors)), load)
    forecast = LoadCalibration(canonical(), timeline, task, [run_TC]).from_runs(0.01, samples=20)
    assert forecast.tails["spindle_torque"].unit_T == pytest.approx(np.full(len(timeline), unit))
    assert forecast.high["spindle_torque"] == pytest.approx(load + unit * student_tail(np.zeros(9)).within(0.01))


def highest_around(values):
    return np.array([values[max(place - 1, 0) : place + 2].max() for place in range(len(values))])


def scored_one_by_one(sensors, commands):
    """The same scores, one window after the other."""
    timeline, column = Timeline.of_log(MODEL.schema, commands), MODEL.schema.sensor_names.index(NAME)
    starts = [at for at in range(CONTEXT, len(sensors) - AHEAD + 1, 2) if timeline.cutting[at : at + AHEAD].any()]
    x = torch.from_numpy(MODEL.normaliser.transform_sensors(sensors).astype(np.float32))
    a = torch.from_numpy(MODEL.normaliser.transform_commands(commands).astype(np.float32))
    same, others = [], []
    for at in starts[-96:]:
        said = mean_rollout(
            MODEL, x[None, at - CONTEXT : at], a[None, at - CONTEXT : at], a[None, at : at + AHEAD]
        ).distribution
        middle, high = (
            highest_around(physical(MODEL, NAME, said[0, :, column].quantile(level))) for level in (0.5, CAUTIOUS)
        )
        score = (sensors[at : at + AHEAD, column] - middle) / (high - middle)
        under_way = timeline.rows(at, at + AHEAD).under_way(commands[at - 1])
        cutting = timeline.cutting[at : at + AHEAD]
        same += score[cutting & under_way].tolist()
        others += score[cutting & ~under_way].tolist()
    return same, others


def test_scores_are_those_of_every_window_by_itself():
    found = forecast_scores(MODEL, [NAME], TABLE.sensors, TABLE.commands)[NAME]
    same, others = scored_one_by_one(TABLE.sensors, TABLE.commands)
    assert len(same) > 50
    assert len(others) > 50
    np.testing.assert_allclose(found.under_way, same, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.to_come, others, rtol=1e-3, atol=1e-3)


def test_a_log_without_a_cut_has_no_scores():
    still = np.zeros_like(TABLE.commands)
    found = forecast_scores(MODEL, [NAME], TABLE.sensors, still)[NAME]
    assert len(found.under_way) == len(found.to_come) == 0


def test_rows_of_a_cut_that_nobody_measured_do_not_count():
    sensors = TABLE.sensors.copy()
    sensors[200:, MODEL.schema.sensor_names.index(NAME)] = np.nan
    found = forecast_scores(MODEL, [NAME], sensors, TABLE.commands)[NAME]
    whole = forecast_scores(MODEL, [NAME], TABLE.sensors, TABLE.commands)[NAME]
    assert 0 < len(found.under_way) < len(whole.under_way)
    assert np.isfinite(found.under_way).all()
