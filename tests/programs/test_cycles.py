"""ISO drilling cycles drill at each position and retract as told."""

import pytest

from crossfeed.programs.blocks import Dwell
from tests.programs.nc import parse, reasons

START = ("S3000 M3", "G0 Z10")


def heights(*lines: str) -> list[tuple[str, float]]:
    return [(move.kind, move.end[2]) for move in parse(*START, *lines).moves[1:]]


def test_g81_drills_and_returns_to_the_initial_height() -> None:
    program = parse(*START, "G81 X5 Y5 Z-4 R2 F100", "X10", "G80", "X0")
    assert reasons(program) == []
    assert [(move.kind, move.end) for move in program.moves[1:]] == [
        ("rapid", (5, 5, 10)),
        ("rapid", (5, 5, 2)),
        ("linear", (5, 5, -4)),
        ("rapid", (5, 5, 10)),
        ("rapid", (10, 5, 10)),
        ("rapid", (10, 5, 2)),
        ("linear", (10, 5, -4)),
        ("rapid", (10, 5, 10)),
        ("rapid", (0, 5, 10)),
    ]


def test_g99_returns_to_the_clearance_height() -> None:
    assert heights("G99 G81 X5 Z-4 R2 F100")[-1] == ("rapid", 2.0)


def test_g83_pecks_and_g73_breaks_chips() -> None:
    out = heights("G83 X5 Z-5 R1 Q2.5 F100")
    assert [height for kind, height in out if kind == "linear"] == [-1.5, -4.0, -5.0]
    assert out.count(("rapid", 1.0)) == 3
    broken = heights("G73 X5 Z-5 R1 Q2.5 F100")
    assert [height for kind, height in broken if kind == "linear"] == [-1.5, -4.0, -5.0]
    assert ("rapid", -1.0) in broken


def test_a_drill_stops_at_the_bottom_but_not_between_two_rapids() -> None:
    moves = parse("G64", *START, "G83 X5 Z-5 R1 Q2.5 F100", "X10").moves[1:]
    assert {(move.kind, move.exact_stop) for move in moves} == {("linear", True), ("rapid", False)}


def test_g82_dwells_at_the_bottom() -> None:
    (dwell,) = [block for block in parse(*START, "G82 X5 Z-5 R1 P250 F100").blocks if isinstance(block, Dwell)]
    assert dwell.seconds == 0.25
    assert dwell.position[2] == -5.0


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("G81 X5 Z-4 F100", "needs a depth Z and, above it, a height R"),
        ("G81 X5 Z4 R-4 F100", "needs a depth Z and, above it, a height R"),
        ("G83 X5 Z-4 R2 F100", "needs a peck Q"),
        ("G91 G81 X5 Z-4 R2 F100", "with G90 and G17 only"),
    ],
)
def test_incomplete_cycles_are_listed(line: str, complaint: str) -> None:
    program = parse(*START, line)
    assert complaint in program.findings[0].reason
    assert (program.motion_lines, program.understood_motion_lines) == (2, 1)
