"""Axis words become the right moves: coordinates, units, planes, arcs, frames, rotary axes."""

import math

import numpy as np
import pytest

from crossfeed.programs.blocks import Dwell, Move, Rotary, Setup, ToolChange
from crossfeed.programs.legs import rotation
from tests.programs.nc import only_move, parse, reasons

CUT = "S1000 M3 F600"


def test_linear_move_holds_all_it_needs() -> None:
    move = only_move('T="MILL" M6', "G1 X3 Y4 S8000 M3 F1200")
    assert (move.kind, move.line, move.start, move.end) == ("linear", 2, (0.0, 0.0, 0.0), (3.0, 4.0, 0.0))
    assert (move.length, move.feed, move.spindle, move.tool) == (5.0, 1200.0, 8000.0, "MILL")


def test_rapid_has_no_feed_and_modal_codes_stay() -> None:
    program = parse(CUT, "G0 X10", "Y5", "G1 Z-1", "X20")
    assert [move.kind for move in program.moves] == ["rapid", "rapid", "linear", "linear"]
    assert program.moves[0].feed is None
    assert program.moves[-1].end == (20.0, 5.0, -1.0)


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        (("G90 G1 X10", "G91 X5 Y-2"), (15.0, -2.0, 0.0)),
        (("G1 X10", "X=IC(5) Y=AC(7)"), (15.0, 7.0, 0.0)),
        (("G1 X10", "X IC(5)"), (15.0, 0.0, 0.0)),
        (("G91 X10", "X=AC(5)"), (5.0, 0.0, 0.0)),
        (("G70 G1 X1",), (25.4, 0.0, 0.0)),
        (("G20 G1 X1", "G21 Y10"), (25.4, 10.0, 0.0)),
        (("DEF REAL _A, _B=4", "_A=2", "G1 X=_A Y=_B*2"), (2.0, 8.0, 0.0)),
        (("R1=3 R2=R1+1", "G1 X=R2 Y=-R1"), (4.0, -3.0, 0.0)),
        (("#1=3", "G1 X#1 Y[#1*2] Z-#1"), (3.0, 6.0, -3.0)),
        (("TRANS X10 Y5", "G1 X1 Y1"), (11.0, 6.0, 0.0)),
        (("TRANS X10", "ATRANS X5", "G1 X1"), (16.0, 0.0, 0.0)),
        (("TRANS X10", "TRANS", "G1 X1"), (1.0, 0.0, 0.0)),
        (("ROT RPL=90", "G1 X10"), (0.0, 10.0, 0.0)),
        (("ROT Z90", "ATRANS X5", "G1 X1 Y2"), (-2.0, 6.0, 0.0)),
        (("AROT X90", "G1 Z10"), (0.0, -10.0, 0.0)),
        (("G1 X5", "TRANS X10", "G1 Y3"), (5.0, 3.0, 0.0)),
    ],
)
def test_end_point(lines: tuple[str, ...], end: tuple[float, float, float]) -> None:
    program = parse(CUT, "G1", *lines)
    assert reasons(program) == []
    assert program.moves[-1].end == pytest.approx(end, abs=1e-12)


def test_feed_units_follow_g700_but_not_g70() -> None:
    assert parse("S1 M3 G700 F10", "G1 X1").moves[0].feed == pytest.approx(254.0)
    assert parse("S1 M3 G70 F10", "G1 X1").moves[0].feed == pytest.approx(10.0)


def test_feed_per_revolution_and_inverse_time() -> None:
    turning = only_move("G95 S2000 M3", "G1 X10 F.1")
    assert turning.feed == pytest.approx(200.0)
    assert turning.per_revolution
    assert only_move("G93 S2000 M3", "G1 X10 F3").feed == pytest.approx(30.0)


def test_machine_coordinates_use_the_work_offset() -> None:
    setup = Setup(work_offset=(-100.0, 20.0, 300.0), home=(-100.0, 20.0, 610.0))
    for word in ("SUPA", "G53", "G153"):
        program = parse("TRANS X7", f"{word} G0 X-150 Z610", "G0 X0", setup=setup)
        assert program.moves[0].start == (0.0, 0.0, 310.0)
        assert program.moves[0].end == (-50.0, 0.0, 310.0)
        assert program.moves[1].end == (7.0, 0.0, 310.0)


def test_g28_goes_over_the_point_to_home() -> None:
    setup = Setup(work_offset=(0.0, 0.0, 0.0), home=(100.0, 50.0, 200.0))
    program = parse("G0 X0 Y0 Z0", "G91 G28 Z10", "G90", "G1 F100 S1 M3 X1", setup=setup)
    assert [move.end for move in program.moves] == [(0, 0, 0), (0, 0, 10), (0, 0, 200), (1, 0, 200)]
    assert program.moves[2].kind == "rapid"


@pytest.mark.parametrize(
    ("line", "center", "sweep", "end"),
    [
        ("G3 X0 Y10 I-10 J0", (0, 0, 0), math.pi / 2, (0, 10, 0)),
        ("G2 X0 Y10 I-10 J0", (0, 0, 0), 3 * math.pi / 2, (0, 10, 0)),
        ("G3 X0 Y10 CR=10", (0, 0, 0), math.pi / 2, (0, 10, 0)),
        ("G3 X0 Y10 R10", (0, 0, 0), math.pi / 2, (0, 10, 0)),
        ("G3 X0 Y10 CR=-10", (10, 10, 0), 3 * math.pi / 2, (0, 10, 0)),
        ("G2 X0 Y10 CR=10", (10, 10, 0), math.pi / 2, (0, 10, 0)),
        ("G3 X-10 CR=10", (0, 0, 0), math.pi, (-10, 0, 0)),
        ("G3 I-10", (0, 0, 0), 2 * math.pi, (10, 0, 0)),
        ("G3 X10 Y0 I-10 J0 Z-4 TURN=2", (0, 0, 0), 6 * math.pi, (10, 0, -4)),
        ("G3 X0 Y10 I=AC(0) J=AC(0)", (0, 0, 0), math.pi / 2, (0, 10, 0)),
        ("G18 G2 X0 Z10 I-10 K0", (0, 0, 0), math.pi / 2, (0, 0, 10)),
        ("G18 G3 X0 Z10 I-10 K0", (0, 0, 0), 3 * math.pi / 2, (0, 0, 10)),
    ],
)
def test_arc(line: str, center: tuple, sweep: float, end: tuple) -> None:
    program = parse(CUT, "G0 X10", line)
    assert reasons(program) == []
    move = program.moves[-1]
    assert move.kind == "arc"
    assert move.arc is not None
    assert move.arc.center == pytest.approx(center, abs=1e-9)
    assert move.arc.sweep == pytest.approx(sweep)
    assert move.end == pytest.approx(end, abs=1e-9)
    rise = end[2] if "G18" not in line else 0.0
    assert move.length == pytest.approx(math.hypot(10 * sweep, rise))


def test_arc_in_the_yz_plane() -> None:
    move = parse(CUT, "G19 G0 Y10", "G3 Y0 Z10 J-10 K0").moves[-1]
    assert move.arc is not None
    assert move.arc.sweep == pytest.approx(math.pi / 2)


def test_arc_with_rounded_end_still_ends_where_the_text_says() -> None:
    move = parse(CUT, "G0 X10", "G3 X0 Y10.004 I-10 J0").moves[-1]
    assert move.arc is not None
    assert move.arc.radius_change == pytest.approx(0.004)
    assert move.end == (0.0, 10.004, 0.0)


def test_tool_center_control_turns_the_frame_with_the_table() -> None:
    # With the table swivelled by B90 the frame of AROT Y90 lies along the machine axes again.
    program = parse(CUT, "G0 B90", "TRAORI", "AROT Y90", "G1 X1 Y2 Z3", "G3 X2 Y3 I1 J0 F100")
    first, arc = program.moves
    assert first.end == pytest.approx((1.0, 2.0, 3.0))
    assert first.table == (0.0, 90.0, 0.0)
    assert arc.arc is not None
    assert arc.arc.center == pytest.approx((2.0, 2.0, 3.0))


def test_rotary_axes_alone_and_together() -> None:
    program = parse("G0 B90 C-180", "G0 X10 C=DC(170)", "C=ACP(160)", "C=IC(-20)", "TRAFOOF")
    first, both, forwards, back = program.blocks
    assert isinstance(first, Rotary)
    assert (first.start, first.end) == ((0, 0, 0), (0, 90, -180))
    assert isinstance(both, Move)
    assert both.rotary == pytest.approx((0, 0, -10))
    assert isinstance(forwards, Rotary)
    assert forwards.end[2] - forwards.start[2] == pytest.approx(350.0)
    assert isinstance(back, Rotary)
    assert back.end[2] - back.start[2] == pytest.approx(-20.0)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [("G4 F2.5", 2.5), ("G4 S100", 6.0), ("G4 X1.5", 1.5), ("G4 P500", 0.5), ("G4 P2.", 2.0), ("G04 P0.5", 0.5)],
)
def test_dwell(line: str, seconds: float) -> None:
    (block,) = parse("S1000 M3 F77", line).blocks
    assert isinstance(block, Dwell)
    assert block.seconds == pytest.approx(seconds)
    assert block.spindle == 1000.0


def test_dwell_leaves_feed_and_speed_alone() -> None:
    move = parse("S1000 M3 F77", "G4 F2", "G4 S3", "G1 X1").moves[0]
    assert (move.feed, move.spindle) == (77.0, 1000.0)


def test_spindle_follows_m_codes() -> None:
    program = parse("G0 S500 M3 X1", "M4 X2", "X3 M5", "X4", "M1=3 S1=700", "X5")
    assert [move.spindle for move in program.moves] == [500.0, -500.0, -500.0, 0.0, 700.0]


def test_tool_change_stops_the_spindle_and_needs_m6_where_the_program_uses_it() -> None:
    program = parse("G0 X1 S100 M3", 'T="A"', "X2", "M6", "X3", "T2 M06", "T0", "M6")
    changes = [block for block in program.blocks if isinstance(block, ToolChange)]
    assert [change.tool for change in changes] == ["A", "T2", ""]
    assert [(move.tool, move.spindle) for move in program.moves] == [("", 100.0), ("", 100.0), ("A", 0.0)]


def test_t_alone_changes_the_tool_where_no_m6_is_used() -> None:
    assert [type(block) for block in parse("T1", "G0 X1").blocks] == [ToolChange, Move]


def test_the_same_tool_again_takes_no_time() -> None:
    program = parse("T1 M6", "G0 X1", "T1 M6")
    assert sum(isinstance(block, ToolChange) for block in program.blocks) == 1


def test_exact_stop_modes() -> None:
    lines = ("G60 X1", "G64 X2", "G9 X3", "X4", "G60", "CYCLE832(.02,1,1)", "X5", "CYCLE832()", "X6")
    program = parse(CUT, "G1", *lines)
    assert [move.exact_stop for move in program.moves] == [True, False, True, False, False, True]


def test_end_of_program_and_text_behind_it() -> None:
    program = parse(CUT, "G1 X1", "M30", "G1 X2")
    assert len(program.moves) == 1
    assert reasons(program) == ["4: what follows the end of the program was not read (lines with code: 1)"]


def test_block_skip_switch() -> None:
    lines = (CUT, "/G1 X1", "N10 /G1 X2", "G1 X3")
    assert len(parse(*lines).moves) == 3
    setup = Setup(work_offset=(0, 0, 0), home=(0, 0, 0), block_skip=True)
    assert [move.end[0] for move in parse(*lines, setup=setup).moves] == [3.0]


def test_header_lines_are_no_words() -> None:
    program = parse("%", "%_N_PART_MPF", ";$PATH=/_N_WKS_DIR", "O1234 (PART)", "O0001", CUT, "G1 X1", "%")
    assert reasons(program) == []
    assert len(program.moves) == 1


def test_calls_are_skipped_and_counted() -> None:
    lines = ('MSG("a")', "CYCLE800()", 'CYCLE800(1,"T")', "POCKET4(1,2)", "MYPART", "L123", "M98 P1000", "G65 P9 X5")
    program = parse(*lines)
    expected = {"CYCLE800": 2, "L123": 1, "MSG": 1, "MYPART": 1, "O1000": 1, "O9": 1, "POCKET4": 1}
    assert program.skipped_calls == expected
    assert program.blocks == ()


def test_positions_are_continuous_over_frames_and_machine_moves() -> None:
    program = parse(
        CUT, "G0 X5 Y5", "ROT Z30", "G1 X10", "G2 X12 Y2 CR=4", "SUPA G0 Z100", "TRANS X3", "G1 X0 Y0 Z0", "G28 X0"
    )
    for before, after in zip(program.moves, program.moves[1:], strict=False):
        assert np.allclose(before.end, after.start)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_quarter_turns_are_those_of_any_other_angle_and_exact(axis: int) -> None:
    for quarter in range(-5, 6):
        turn = rotation(axis, 90.0 * quarter)
        assert set(turn.ravel().tolist()) <= {-1.0, 0.0, 1.0}
        np.testing.assert_allclose(turn, rotation(axis, 90.0 * quarter + 1e-9), atol=1e-9)
    np.testing.assert_allclose(rotation(axis, 30.0) @ rotation(axis, 60.0), rotation(axis, 90.0), atol=1e-12)
    first, second = np.eye(3)[(axis + 1) % 3], np.eye(3)[(axis + 2) % 3]
    np.testing.assert_allclose(rotation(axis, 30.0) @ first, np.sqrt(0.75) * first + 0.5 * second, atol=1e-12)
