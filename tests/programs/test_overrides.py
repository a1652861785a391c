"""Overrides scale speeds, stretch time, and never lift a limit."""

import pytest

from crossfeed.errors import ProgramError
from crossfeed.programs.plan import plan
from tests.programs.nc import parse
from tests.programs.test_plan import NO_WAIT

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


def test_a_turn_of_the_table_does_not_follow_the_spindle() -> None:
    program = parse("S1000 M3 F600 G1 X10", "G0 B90", "G4 F1", "G1 B0 F500")
    assert plan(program, NO_WAIT, spindle_override=0.5).duration == plan(program, NO_WAIT).duration


@pytest.mark.parametrize("override", [0.0, -1.0, float("nan"), 11.0])
def test_impossible_overrides_are_refused(override) -> None:
    with pytest.raises(ProgramError, match="override"):
        plan(parse(*CUT), feed_override=override)
