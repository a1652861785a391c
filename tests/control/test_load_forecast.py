"""The law of cutting, and loads of which samples are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.control.load_forecast import CuttingLaw, LoadForecast
from crossfeed.control.task import read_task
from crossfeed.control.timeline import Timeline
from crossfeed.control.trial import along, idle_start, trial
from crossfeed.schema import canonical
from tests.control.conftest import logged

ROWS, ABSENT = 40, "x_torque"
LAW = CuttingLaw({"spindle_torque": (0.2, 1e-4)})
TORQUE = canonical().channel("spindle_torque")


def test_of_samples_alone_the_median_and_the_cautious_quantile_are_known() -> None:
    timeline = Timeline.of_log(logged().schema, logged().commands[:5])
    ranks = np.arange(1.0, 100.0)[:, None] * np.ones(5)
    found = LoadForecast.sampled(timeline, {"a": ranks})
    assert found.middle["a"].tolist() == [50.0] * 5
    assert found.high["a"] == pytest.approx([95.0] * 5)


def test_idle_loads_are_read_from_the_quiet_rows():
    table = logged()
    law = CuttingLaw.from_logs(table.schema, table.sensors, table.commands)
    assert float(law.idle_load("spindle_torque", np.array([3000.0]))[0]) == pytest.approx(0.6, abs=0.12)
    assert float(law.idle_load("spindle_torque", np.array([0.0]))[0]) == 0.0


@given(st.floats(0.0, 50.0), st.floats(0.5, 1.5), st.floats(0.8, 1.2))
def test_the_bound_is_never_below_the_expectation(load, feed, spindle):
    given_ = (TORQUE, np.array([load]), np.array([4000.0]), np.array([feed]), np.array([spindle]))
    assert LAW.bound(*given_)[0] >= LAW.expected(*given_)[0] - 1e-9


@given(st.floats(0.7, 50.0), st.floats(0.5, 1.45))
def test_loads_grow_with_the_feed_and_stay_where_it_does(load, feed):
    def at(factor):
        one = np.ones(1)
        return LAW.expected(TORQUE, load * one, 4000.0 * one, factor * one, one)[0]

    assert at(1.0) == pytest.approx(load)
    assert at(feed + 0.05) >= at(feed)


def test_the_law_foresees_a_faster_cut_on_the_simulator(piece, timeline):
    """Half of the error of foreseeing no change, and nearly never above the bound."""
    task, (_, state), ones = read_task(None, {}), idle_start(piece), np.ones(len(timeline))
    before = trial(piece, timeline, task, along(ones, ones), state)
    faster = np.where(timeline.feed_share_T > 0.5, 1.2, 1.0)
    after = trial(piece, timeline, task, along(faster, ones), state)
    law = CuttingLaw({"spindle_torque": (0.25, 4e-5)})
    torque = canonical().sensor_names.index("spindle_torque")
    load = np.array([row.truth[torque] for row in before.rows])
    true = np.array([row.truth[torque] for row in after.rows])
    at = np.minimum(np.round(after.position).astype(int), len(load) - 1)
    cut = timeline.cutting[np.minimum(at, len(timeline) - 1)] & (np.abs(np.gradient(load[at])) < 0.3)
    speed, one = np.full(cut.sum(), 3000.0), np.ones(cut.sum())
    expected = law.expected(TORQUE, load[at][cut], speed, 1.2 * one, one)
    assert cut.sum() > 6
    assert np.abs(expected - true[cut]).mean() < 0.5 * np.abs(load[at][cut] - true[cut]).mean()
    assert (true[cut] <= 1.05 * law.bound(TORQUE, load[at][cut], speed, 1.2 * one, one)).mean() > 0.9


def test_light_cuts_were_taken_for_cuts_in_the_air():
    """A program that cuts nearly all the time: its quiet tenth were light cuts, and loads did not grow."""
    schema, rows = canonical(), 120
    sensors, commands = np.full((rows, len(schema.sensors)), 1.0), np.zeros((rows, 4))
    commands[:, 0], commands[:, 1] = 3000.0, 600.0
    sensors[:, 1] = np.where(np.arange(rows) % 40 == 5, 0.4, np.linspace(1.2, 2.4, rows))
    law = CuttingLaw.from_logs(schema, sensors, commands)
    assert float(law.idle_load("spindle_torque", np.array([3000.0]))[0]) == pytest.approx(0.4, abs=0.05)
    assert law.idle["spindle_torque"][0] == 0.0, "one speed says nothing of what it takes at rest"


@pytest.mark.parametrize("per_turn", [1e-4, 1e-6])
def test_what_turning_needs_goes_with_the_speed_however_little_it_is(per_turn):
    law, one = CuttingLaw({"spindle_power": (0.0, per_turn)}), np.ones(1)
    idle, cut = 4000.0 * per_turn, 2.0
    slower = law.expected(canonical().channel("spindle_power"), (idle + cut) * one, 4000.0 * one, 0.5 * one, 0.5 * one)
    assert slower == pytest.approx([0.5 * idle + 0.5 * cut], rel=1e-9), "the chip stays, and half of it is cut a second"


@pytest.mark.parametrize(("drift", "known"), [(0.2, True), (0.35, False)])
def test_a_spindle_that_drifts_by_a_turn_a_minute_in_three_rows_has_not_settled(drift, known):
    schema, rows = canonical(), 60
    sensors, commands = np.full((rows, len(schema.sensors)), 1.0), np.zeros((rows, 4))
    commands[:, 0] = 3000.0 + drift * np.arange(rows)
    law = CuttingLaw.from_logs(schema, sensors, commands)
    assert ("spindle_torque" in law.idle) == known


def test_five_rows_at_a_speed_tell_what_turning_needs_there():
    schema = canonical()
    for rows, known in ((7, False), (8, True)):  # the first three have not settled
        sensors, commands = np.full((rows, len(schema.sensors)), 1.5), np.zeros((rows, 4))
        commands[:, 0] = 3000.0
        law = CuttingLaw.from_logs(schema, sensors, commands)
        assert ("spindle_torque" in law.idle) == known
        assert not known or law.idle["spindle_torque"] == pytest.approx((0.0, 1.5 / 3000.0))


def test_what_a_standing_spindle_holds_is_no_part_of_what_turning_needs():
    schema, rows = canonical(), 60
    sensors, commands = np.full((rows, len(schema.sensors)), 4.0), np.zeros((rows, 4))
    commands[20:, 0] = np.where(np.arange(40) < 20, 2000.0, 4000.0)
    sensors[20:] = commands[20:, [0]] / 1000.0
    idle = CuttingLaw.from_logs(schema, sensors, commands).idle["spindle_torque"]
    assert idle == pytest.approx((0.0, 0.001), abs=1e-9)
