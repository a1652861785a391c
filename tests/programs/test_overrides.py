"""Overrides scale speeds, stretch time, hold the feed, and never lift a limit."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import ProgramError
from crossfeed.programs.plan import MotionLimits, plan
from tests.programs.nc import parse
from tests.programs.test_plan import MOVES, NO_WAIT

WRONG_SCHEDULES = ([(1.0, 1.0)], [(0, 1), (0, 2)], [(0, 1), (2, 1), (1, 1)], [(0, 1), (2, 0)])
CUT = ("S1000 M3 F600", "G1 X100")


def test_constant_feed_override_scales_the_cut() -> None:
    full, half = plan(parse(*CUT), NO_WAIT), plan(parse(*CUT), NO_WAIT, feed_override=0.5)
    assert half.duration == pytest.approx(2 * full.duration, rel=0.01)
    assert half.sample(100).feed[:, 0].max() == pytest.approx(300)


def test_feed_override_leaves_rapids_alone_and_the_other_way_round() -> None:
    rapid = parse("G0 X100")
    assert plan(rapid, feed_override=0.1).duration == plan(rapid).duration
    assert plan(rapid, rapid_override=0.1).duration > 4 * plan(rapid).duration
    assert plan(parse(*CUT), rapid_override=0.1).duration == plan(parse(*CUT)).duration


def test_rapid_override_above_one_is_full_speed() -> None:
    assert plan(parse("G0 X100"), rapid_override=1.5).duration == plan(parse("G0 X100")).duration


def test_spindle_override_moves_feed_per_revolution_along() -> None:
    program = parse("G95 S1000 M3 F.5", "G1 X100")
    trace = plan(program, NO_WAIT, spindle_override=0.8).sample(100)
    assert trace.spindle_speed.max() == pytest.approx(800)
    assert trace.feed[:, 0].max() == pytest.approx(400)
    per_minute = plan(parse(*CUT), NO_WAIT, spindle_override=0.8).sample(100)
    assert per_minute.feed[:, 0].max() == pytest.approx(600)


def test_schedule_changes_the_feed_at_its_times() -> None:
    trace = plan(parse(*CUT), NO_WAIT, feed_override=[(0, 1.0), (2, 0.5), (4, 1.2)]).sample(100)
    assert trace.feed[100, 0] == pytest.approx(600)
    assert trace.feed[300, 0] == pytest.approx(300)
    assert trace.feed[500, 0] == pytest.approx(720)


def test_factor_of_zero_is_a_feed_hold() -> None:
    held = plan(parse(*CUT), NO_WAIT, feed_override=[(0, 1.0), (2, 0.0), (5, 1.0)])
    assert held.duration == pytest.approx(plan(parse(*CUT), NO_WAIT).duration + 3.0)
    trace = held.sample(100)
    during = (trace.time > 2.01) & (trace.time < 5.0)
    assert (trace.feed[during, 0] == 0).all()
    assert (trace.spindle_speed[during] == 1000).all()
    assert np.allclose(trace.position[-1], (100, 0, 0))


def test_spindle_schedule() -> None:
    trace = plan(parse(*CUT), NO_WAIT, spindle_override=[(0, 1.0), (3, 0.6)]).sample(10)
    assert (trace.spindle_speed[trace.time <= 3] == 1000).all()
    assert trace.spindle_speed[trace.time > 3.05].max() == pytest.approx(600)


def test_schedule_with_equal_factors_is_the_constant() -> None:
    program = parse(*CUT, "G0 Z10", "G4 F1", "G1 Y5")
    constant, schedule = plan(program, feed_override=0.7), plan(program, feed_override=[(0, 0.7), (1.5, 0.7), (3, 0.7)])
    assert schedule.duration == pytest.approx(constant.duration)
    assert np.allclose(schedule.sample(50, "mean").feed[:, 0], constant.sample(50, "mean").feed[:, 0])


def as_schedule(steps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Gaps between changes become times."""
    times = accumulate(gap for gap, _ in steps)
    return [(0.0, 1.0), *((time, factor) for time, (_, factor) in zip(times, steps))]


SCHEDULES = st.lists(st.tuples(st.floats(0.05, 2), st.floats(0, 1.5)), max_size=5).map(as_schedule)


@settings(max_examples=60)
@given(MOVES, SCHEDULES, SCHEDULES)
def test_schedules_keep_path_and_limits(moves: list[str], feed: list, rapid: list) -> None:
    program = parse("S1000 M3 F900 G1 X1", *moves)
    feed[-1], rapid[-1] = (feed[-1][0], 1.0), (rapid[-1][0], 0.5)
    limits = MotionLimits(rapid=(20_000, 15_000, 10_000))
    trace = plan(program, limits, feed_override=feed, rapid_override=rapid).sample(100, "mean")
    assert np.allclose(trace.feed.sum(axis=0) / 100 / 60, program.moves[-1].end, atol=1e-5)
    assert (np.abs(trace.feed) <= np.array(limits.rapid) * 1.0001).all()


@pytest.mark.parametrize("override", [0.0, -1.0, float("nan"), 11.0, [], *WRONG_SCHEDULES])
def test_impossible_overrides_are_refused(override) -> None:
    with pytest.raises(ProgramError, match="override"):
        plan(parse(*CUT), feed_override=override)
