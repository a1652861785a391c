"""What a log says about the program to come: earlier runs are found, and limits hold where they passed before."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from crossfeed.control.controllers import AsWritten, PlannedKnobs, Planner
from crossfeed.control.earlier_runs import LoggedRows, around, find_runs
from crossfeed.control.load_calibration import LimitedSensor, LoadCalibration, forecast_scores
from crossfeed.control.load_forecast import CAUTIOUS, CuttingLaw, physical
from crossfeed.control.margins import FEWEST
from crossfeed.control.task import read_task
from crossfeed.control.timeline import Timeline
from crossfeed.control.trial import TrialStart, idle_start, trial
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
    past = idle_start(piece, seed)
    knobs = np.full(len(timeline), feed), np.ones(len(timeline))
    run = trial(piece, timeline, read_task(None, {}), PlannedKnobs("fixed", *knobs), past)
    sensors, commands = np.concatenate([past.sensors_RC, run.sensors]), np.concatenate([past.commands_RA, run.commands])
    return run, LoggedRows(sensors, commands, timeline.name)


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
    task = read_task(None, {"limits": [f"spindle_torque<={highest}"]})
    law = CuttingLaw({"spindle_torque": (0.2, 3e-5)})
    return LoadCalibration.of(model, law, timeline, task, rows)


def test_a_deeper_cut_ahead_is_known_from_the_earlier_run(model, piece, timeline, earlier):
    """Limits were passed in the first seconds of a layer whose depth no command tells."""
    known = calibration(model, timeline, [earlier[1], run_of(piece, timeline, 5)[1]], 5.0)
    assert known.has_runs
    from_runs = known.from_runs(timeline, 0.0, risk=0.01)
    true = np.array([row.truth[TORQUE] for row in run_of(piece, timeline, 6)[0].rows])[: len(timeline)]
    assert (true <= from_runs.high["spindle_torque"])[timeline.cutting].mean() > 0.95
    later = known.from_runs(timeline.after(7.5), 7.5, risk=0.01)
    assert later.high["spindle_torque"][3] == max(from_runs.high["spindle_torque"][10:12])


def test_a_row_above_what_was_foreseen_widens_the_margin(model, piece, timeline, earlier):
    known = calibration(model, timeline, [earlier[1], run_of(piece, timeline, 5)[1]], 5.0)
    before = known.from_runs(timeline, 0.0, 0.01).high["spindle_torque"]
    position = float(np.flatnonzero(timeline.cutting)[0])
    for _ in range(30):
        known.learn(position, position + 0.5, (1.0, 1.0), np.full(17, 50.0))
    assert (known.from_runs(timeline, 0.0, 0.01).high["spindle_torque"] > before + 10.0)[timeline.cutting].all()


def test_without_a_log_to_vouch_for_it_nothing_goes_faster(model, piece, timeline):
    """With no row in the cut known, every limit is in danger: the program stays as written."""
    task = read_task(None, {"limits": ["spindle_torque<=8"]})
    law = CuttingLaw({"spindle_torque": (0.2, 3e-5)})
    past = idle_start(piece, 1)
    planner = Planner(model, law, [LoggedRows(past.sensors_RC, past.commands_RA)])
    run = trial(piece, timeline, task, planner, past)
    assert (run.knobs[:FEW] == 1.0).all()


FEW = 18  # seconds, before the run itself has shown enough rows


def test_with_an_earlier_run_it_saves_time_and_keeps_the_limit(model, piece, timeline, earlier):
    run, rows = earlier
    at = np.minimum(run.position.astype(int), len(timeline) - 1)
    highest = 1.3 * max(row.truth[TORQUE] for row, index in zip(run.rows, at) if timeline.cutting[index])
    task = read_task(None, {"limits": [f"spindle_torque<={highest:.3f}"]})
    past = idle_start(piece, 9)
    start = TrialStart(past.sensors_RC, past.commands_RA, past.state)
    law = CuttingLaw.from_logs(canonical(), rows.sensors_RC, rows.commands_RA)
    planner = Planner(model, law, [rows, run_of(piece, timeline, 5)[1]])
    written = trial(piece, timeline, task, AsWritten(), start)
    planned = trial(piece, timeline, task, planner, start)
    assert planned.cost < 0.97 * written.cost
    assert planned.passed <= written.passed


def test_a_new_layer_was_as_well_known_as_the_move_under_way(model, timeline):
    """One margin for both let the first part run into layers whose depth nobody knew, and idle where all was known."""
    task = read_task(None, {"limits": ["spindle_torque<=8"]})
    law = CuttingLaw({"spindle_torque": (0.2, 3e-5)})
    known = LoadCalibration.of(model, law, timeline, task, [])
    first = int(np.flatnonzero(timeline.cutting)[3])
    forecast = known_forecast(timeline.after(float(first)), 4.0)
    now = timeline.commands_TA[first]
    before = known.from_forecast(forecast, float(first), 0.05, now)
    going = forecast.timeline.under_way(now)
    assert going.any()
    assert not going.all()
    assert not before.tails["spindle_torque"].known_T.any()
    for number in range(1, 26):
        known.learn(float(first), first + 0.9, (1.0, 1.0), np.full(17, 4.0))
        said = known.from_forecast(forecast, float(first), 0.05, now).tails["spindle_torque"]
        assert said.known_T.any() == (number >= FEWEST)
    after = known.from_forecast(forecast, float(first), 0.05, now)
    assert (after.tails["spindle_torque"].known_T == going).all()
    assert (after.high["spindle_torque"][going] < 8.0).all()
    assert (after.high["spindle_torque"][~going] > 8.0).all()


def test_a_single_earlier_run_is_believed_up_to_a_twentieth_of_its_mean_load(model, timeline, earlier):
    known = calibration(model, timeline, [earlier[1]], 5.0)
    assert len(known.runs) == 1
    paths = known.from_runs(timeline, 0.0, risk=0.01, samples=400).paths["spindle_torque"]
    load = known.runs[0][:, TORQUE]
    assert paths.mean(axis=0) == pytest.approx(load, abs=0.02)
    assert paths.std(axis=0).mean() == pytest.approx(0.05 * np.abs(load[timeline.cutting]).mean(), rel=0.1)


@pytest.mark.parametrize(("share", "follows"), [(0.45, False), (0.55, True)])
def test_a_feed_for_each_turn_follows_the_spindle_where_most_of_a_place_is_fed_so(timeline, share, follows):
    ones, law = np.ones(len(timeline)), CuttingLaw({"spindle_torque": (0.2, 3e-5)})
    fed = replace(timeline, feed_share_T=0.8 * ones, turn_share_T=0.8 * share * ones)
    torque, place = canonical().channel("spindle_torque"), int(np.flatnonzero(timeline.cutting)[3])
    sensor = LimitedSensor(torque, 8.0 * ones, law, fed, [4.0 * ones])
    before, speed = sensor.margin.middle, np.abs(fed.commands_TA[[place], fed.spindle_column])
    sensor.compare_with_runs(5.0, place, place, (0.9, 1.2))
    feed = 0.9 * (1.2 if follows else 1.0)
    expected = law.expected(torque, np.array([4.0]), speed, np.array([feed]), np.array([1.2]))[0]
    assert sensor.margin.middle == pytest.approx((10.0 * before + (5.0 - expected) / expected) / 11.0)


@pytest.mark.parametrize(("load", "unit"), [(1.5, 2.0), (2.5, 2.5)])
def test_light_cuts_are_compared_by_a_quarter_of_their_limit(timeline, load, unit):
    """A light cut that comes out twice as high is no reason to expect that of a heavy one."""
    ones = np.ones(len(timeline))
    sensor = LimitedSensor(canonical().channel("spindle_torque"), 8.0 * ones, CuttingLaw(), timeline, [load * ones])
    _, high_T, known = sensor.from_runs(0.0, 5, 0.01)
    assert known.unit_T == pytest.approx(np.full(5, unit))
    assert high_T == pytest.approx(load + unit * sensor.margin.within(0.01))
    place, before = int(np.flatnonzero(timeline.cutting)[3]), sensor.margin.middle
    sensor.compare_with_runs(load + 1.0, place, place, (1.0, 1.0))
    assert sensor.margin.middle == pytest.approx((10.0 * before + 1.0 / unit) / 11.0)


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
