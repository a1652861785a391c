"""The planner respects what axes can do, passes corners without stopping where it may, and keeps time."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from crossfeed.errors import ProgramError
from crossfeed.programs.motion import read_motion_limits
from crossfeed.programs.plan import MotionLimits, plan
from tests.programs.nc import parse

CUT = "S1000 M3 F600 G1"
NO_WAIT = MotionLimits(spindle_acceleration=None)


def test_trapezoid_takes_the_time_of_the_formula() -> None:
    # 100 mm at 6000 mm/min = 100 mm/s, 5000 mm/s^2: 1 mm of ramp at each end.
    trajectory = plan(parse("S1 M3 F6000 G1 X100"), NO_WAIT)
    assert trajectory.duration == pytest.approx(2 * 100 / 5000 + 98 / 100)


def test_short_move_stays_triangular() -> None:
    # The feed is not reached within 0.5 mm: v = sqrt(a s).
    trajectory = plan(parse("S1 M3 F6000 G1 X0.5"), NO_WAIT)
    assert trajectory.duration == pytest.approx(2 * math.sqrt(0.5 / 5000))


def test_what_is_braked_to_a_corner_and_sped_up_after_it_reaches_the_speed_between() -> None:
    """Entered at u and left at w, a leg of length s peaks where v^2 = a s + (u^2 + w^2) / 2."""
    path = plan(parse("S1 M3 F60000 G1 X2", "X4", "X6 Y0.2", "X8"), NO_WAIT)
    segments, peaks = path.segments, []
    after = segments.speed + segments.acceleration * segments.seconds
    for leg in range(len(path.legs)):
        own = segments.leg == leg
        entry, leave, peak = segments.speed[own][0], after[own][-1], max(segments.speed[own].max(), after[own].max())
        push = np.abs(segments.acceleration[own]).max()
        assert peak == pytest.approx(math.sqrt(push * path.legs.length[leg] + (entry**2 + leave**2) / 2.0))
        peaks.append(peak)
    assert max(peaks) < 1000.0, "no feed holds any of them back"


def test_rapid_is_limited_by_the_slowest_axis() -> None:
    limits = MotionLimits(rapid=(60_000, 6_000, 60_000), spindle_acceleration=None)
    trace = plan(parse("G0 X100 Y100"), limits).sample(1000)
    assert np.abs(trace.feed[:, 1]).max() == pytest.approx(6_000)
    assert np.abs(trace.feed[:, 0]).max() == pytest.approx(6_000)


def test_collinear_segments_do_not_stop_and_sharp_corners_do() -> None:
    straight = plan(parse(CUT, *(f"X{number}" for number in range(1, 101))), NO_WAIT)
    whole = plan(parse(CUT, "X100"), NO_WAIT)
    assert straight.duration == pytest.approx(whole.duration, abs=1e-9)
    back = plan(parse(CUT, "X50", "X0"), NO_WAIT)
    there = plan(parse(CUT, "X50"), NO_WAIT)
    assert back.duration == pytest.approx(2 * there.duration, rel=1e-6)


def test_polygon_is_passed_as_fast_as_the_circle_it_stands_for() -> None:
    angles = np.linspace(0, 2 * np.pi, 361)
    polygon = [f"X{20 * math.cos(angle):.6f} Y{20 * math.sin(angle):.6f}" for angle in angles]
    cut = "S1 M3 F20000"
    segments = plan(parse(cut, "G0 X20", "G1", *polygon), NO_WAIT)
    arc = plan(parse(cut, "G0 X20", "G3 X20 Y0 I-20 J0"), NO_WAIT)
    assert segments.cutting_time == pytest.approx(arc.cutting_time, rel=0.25)


def test_exact_stop_brakes_at_every_corner() -> None:
    lines = [f"X{number}" for number in range(1, 11)]
    one = plan(parse(CUT, "X1"), NO_WAIT).duration
    assert plan(parse(CUT, "G60", *lines), NO_WAIT).duration == pytest.approx(10 * one)


def test_arc_respects_centripetal_acceleration() -> None:
    trace = plan(parse("S1 M3 F60000", "G9 G0 X1", "G3 X1 Y0 I-1 J0"), NO_WAIT).sample(20_000)
    velocity = trace.feed[:, :2] / 60.0
    pushed = np.abs(np.diff(velocity, axis=0)) * 20_000
    assert pushed.max() <= 5_000 * 1.05


def test_dwell_tool_change_and_rotary_moves_take_time() -> None:
    limits = MotionLimits(tool_change=7.0, spindle_acceleration=None)
    assert plan(parse("G4 F2.5"), limits).duration == pytest.approx(2.5)
    assert plan(parse("T1 M6", "T2 M6"), limits).duration == pytest.approx(14.0)
    # 90 degrees at 18000 deg/min = 300 deg/s, 600 deg/s^2: never at full speed.
    assert plan(parse("G0 B90"), limits).duration == pytest.approx(2 * math.sqrt(90 / 600))


def test_rotary_axes_hold_back_the_linear_ones() -> None:
    alone = plan(parse("G0 X10"), NO_WAIT).duration
    assert plan(parse("G0 X10 C360"), NO_WAIT).duration > 2 * alone


def test_first_cut_waits_for_the_spindle() -> None:
    limits = MotionLimits(spindle_acceleration=5_000.0)
    lines = ("G0 X10 S10000 M3", "G1 X20 F600")
    waiting, at_once = plan(parse(*lines), limits), plan(parse(*lines), NO_WAIT)
    rapid = plan(parse("G0 X10"), NO_WAIT).duration
    assert waiting.duration - at_once.duration == pytest.approx(10_000 / 5_000 - rapid, abs=0.01)
    trace = waiting.sample(1000)
    assert trace.spindle_speed[5] == 10_000
    assert not trace.cutting[trace.time < 1.9].any()


def test_spindle_speed_beyond_the_machine_is_clipped_and_remarked() -> None:
    trajectory = plan(parse("G1 X10 S43768 M3 F600"), MotionLimits(spindle_speed=20_000))
    assert trajectory.sample(100).spindle_speed.max() == 20_000
    (remark,) = trajectory.remarks
    assert (remark.line, remark.severity) == (1, "warning")
    assert "43768 rpm" in remark.reason


def test_program_without_motion_is_refused() -> None:
    with pytest.raises(ProgramError, match="moves nothing"):
        plan(parse("; only a comment"))


@pytest.mark.parametrize(
    "bad", [{"rapid": (0, 1, 1)}, {"acceleration": (1, -1, 1)}, {"speed": 3}, {"tool_change": "x"}]
)
def test_impossible_limits_are_refused(bad: dict) -> None:
    with pytest.raises(ValidationError):
        MotionLimits(**bad)


def test_limits_from_a_file(tmp_path) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text("rapid: [30000, 30000, 20000]\ntool_change: 4\n")
    assert read_motion_limits(path) == MotionLimits(rapid=(30_000, 30_000, 20_000), tool_change=4)
    path.write_text("rapid: [30000, -1, 20000]\n")
    with pytest.raises(ProgramError, match=r"rapid\.1"):
        read_motion_limits(path)
    path.write_text("rapid: [")
    with pytest.raises(ProgramError, match="cannot be read"):
        read_motion_limits(path)
    with pytest.raises(ProgramError, match="cannot be read"):
        read_motion_limits(tmp_path / "missing.yaml")


COORDINATE = st.floats(-50, 50).map(lambda value: round(value, 3))
MOVES = st.lists(
    st.one_of(
        st.tuples(COORDINATE, COORDINATE, COORDINATE).map(lambda p: f"G1 X{p[0]} Y{p[1]} Z{p[2]}"),
        st.tuples(COORDINATE, COORDINATE).map(lambda p: f"G0 X{p[0]} Y{p[1]}"),
        st.tuples(st.sampled_from(["G2", "G3"]), COORDINATE, COORDINATE).map(lambda p: f"{p[0]} I{p[1]} J{p[2]}"),
        st.floats(0.01, 3).map(lambda seconds: f"G4 F{seconds:.3f}"),
        st.sampled_from(["G60", "G64", "M5", "S5000 M3", "F4000", "F150", "T1 M6", "T2 M6", "B30", "G0 B-10 X5"]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=120)
@given(MOVES, st.floats(0.3, 1.5), st.floats(0.1, 1.0))
def test_no_axis_exceeds_its_limits_or_the_overridden_feed(moves: list[str], feed: float, rapid: float) -> None:
    program = parse("S1000 M3 F900 G1 X1", *moves)
    limits = MotionLimits(rapid=(20_000, 15_000, 10_000), acceleration=(3_000, 4_000, 2_000))
    trace = plan(program, limits, feed_override=feed, rapid_override=rapid).sample(200)
    speed = trace.feed.T
    assert (np.abs(speed) <= np.array(limits.rapid)[:, None] * 1.0001).all()
    path_speed = np.sqrt((speed**2).sum(axis=0))
    highest = max((move.feed for move in program.moves if move.feed is not None), default=0.0)
    # A rounding spiral may run a hair faster than its mean radius says.
    assert (path_speed[~trace.rapid] <= highest * feed * 1.001 + 1e-6).all()
    assert (np.abs(speed[:, trace.rapid]) <= np.array(limits.rapid)[:, None] * rapid * 1.0001).all()


@settings(max_examples=60)
@given(MOVES)
def test_planned_cutting_time_is_never_shorter_than_the_programmed_one(moves: list[str]) -> None:
    program = parse("S1000 M3 F900 G1 X1", *moves)
    assert plan(program).cutting_time >= program.programmed_cutting_time * (1 - 1e-9)


def test_a_corner_uses_at_most_half_of_the_shorter_leg() -> None:
    """A right angle between legs of 1 and 4 mm: v^2 = a r with r = 0.5 mm, where the tolerance would allow more."""
    limits = MotionLimits(spindle_acceleration=None, corner_tolerance=0.4)
    speeds = plan(parse("S1 M3 F60000 G1 X1", "Y4"), limits).sample(100_000)
    at = int(np.argmax(speeds.feed[:, 1] > 0.0))
    tangent = math.sqrt(min(limits.acceleration) * min(0.5, 0.4 * math.cos(math.pi / 4) / (1 - math.cos(math.pi / 4))))
    assert max(speeds.feed[at - 2, 0], speeds.feed[at, 1]) / 60.0 == pytest.approx(tangent, rel=0.02)


@pytest.mark.parametrize(
    ("line", "length", "speed", "acceleration"),
    [
        ("G0 X1000", 1000.0, 800.0, 5000.0),
        ("G0 Y1000", 1000.0, 800.0, 5000.0),
        ("G0 Z1000", 1000.0, 800.0, 5000.0),
        ("G0 A3000", 3000.0, 300.0, 600.0),
        ("G0 B3000", 3000.0, 300.0, 600.0),
        ("G0 C3000", 3000.0, 400.0, 900.0),
    ],
)
def test_without_a_word_of_the_machine_axes_are_those_of_a_small_one(
    line: str, length: float, speed: float, acceleration: float
) -> None:
    assert plan(parse(line)).duration == pytest.approx(length / speed + speed / acceleration)


def test_without_a_word_of_the_machine_tools_change_in_six_seconds_and_spindles_are_waited_for() -> None:
    assert plan(parse("T1 M6")).duration == pytest.approx(6.0)
    waiting, at_once = (plan(parse("S9000 M3 F600 G1 X10"), limits).duration for limits in (None, NO_WAIT))
    assert waiting - at_once == pytest.approx(9000.0 / 8000.0)
    assert plan(parse("S20000 M3 F600 G1 X10")).remarks == ()
    assert "above the spindle's 20000 rpm" in plan(parse("S20001 M3 F600 G1 X10")).remarks[0].reason
    corner = plan(parse("S1 M3 F60000 G1 X50", "X50.02 Y0.02", "Y50"), NO_WAIT).duration
    assert (
        corner
        < plan(
            parse("S1 M3 F60000 G1 X50", "X50.02 Y0.02", "Y50"), NO_WAIT.model_copy(update={"corner_tolerance": 0.01})
        ).duration
    )
