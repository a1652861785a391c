"""Bad NC code gives a finding with its line, or a clear error; never a guess that nobody sees."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crossfeed.errors import ProgramError, StorageError
from crossfeed.programs.parse import parse_program, read_program
from tests.programs.nc import parse, reasons

CUT = "S1000 M3 F600"


def test_unknown_g_code_is_listed_and_the_rest_of_the_line_is_followed() -> None:
    program = parse(CUT, "G1 X1", "G777 X2")
    assert reasons(program) == ["3: G777 is not known here and has no effect"]
    assert program.findings[0].severity == "warning"
    assert program.findings[0].text == "G777 X2"
    assert program.moves[-1].end[0] == 2.0


def test_missing_feed_is_listed_with_what_was_assumed() -> None:
    program = parse("S1000 M3", "G1 X1", "G1 X2 F100")
    assert reasons(program) == ["2: no feed F before this move; 500 mm/min assumed"]
    assert [move.feed for move in program.moves] == [500.0, 100.0]


def test_feed_of_zero_would_never_end() -> None:
    assert "a feed of zero; 500 mm/min assumed" in reasons(parse("S1000 M3 F0", "G1 X1"))[0]


def test_cut_with_stopped_spindle_is_listed_once_per_stretch() -> None:
    program = parse("F100", "G1 X1", "X2", "X3", "S500 M3", "X4", "M5", "X5", "X6")
    found = [line.split(":")[0] for line in reasons(program)]
    assert found == ["2", "8"]
    assert all("spindle stopped" in finding.reason for finding in program.findings)


def test_spindle_started_without_speed() -> None:
    program = parse("M3 F100", "G1 X1")
    assert "without a speed S" in program.findings[0].reason
    assert program.moves[0].spindle == 0.0


def test_feed_per_revolution_with_stopped_spindle() -> None:
    assert "feed per revolution with a stopped spindle" in reasons(parse("G95 F.1", "G1 X1"))[0]


@pytest.mark.parametrize(
    ("arc", "complaint"),
    [
        ("G3 X0 Y11 I-10 J0", "the radius does not fit: 10.0000 mm at the start, 11.0000 mm at the end"),
        ("G3 X-10 Y0 CR=5", "the radius 5 mm is too small for end points 20.0000 mm apart"),
        ("G3 X-10 Y0", "an arc needs I, J, K or a radius"),
        ("G3 X10 Y0 CR=5", "a full circle needs I, J, K"),
        ("G3 X0 Y10 I0 J0", "center lies on its start"),
        ("G3 X0 Y10 I-10 J0 TURN=1.5", "TURN must be a whole number"),
    ],
)
def test_arc_that_does_not_fit_becomes_a_listed_straight_line(arc: str, complaint: str) -> None:
    program = parse(CUT, "G0 X10", arc)
    assert complaint in program.findings[0].reason
    assert program.findings[0].line == 3
    assert program.findings[0].severity == "error"
    assert (program.motion_lines, program.understood_motion_lines) == (2, 1)
    assert all(move.kind != "arc" for move in program.moves)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("G1 X=_NOWHERE", "_NOWHERE has no value here"),
        ("G1 X=1/0", "cannot be computed"),
        ("G1 X1 X2", "the address X stands twice"),
        ("G1 X", "the address X has no value"),
        ("G1 X1 S-100", "a spindle speed below zero"),
        ("G1 AP=30 RP=10", "given by angles"),
        ("G1 X99999999", "beyond 10 km"),
        ('G1 X="A"', "the address X needs a number"),
        ("G1 X1 T=", "last value is missing"),
    ],
)
def test_unclear_line_moves_nothing_and_counts_against_the_share(line: str, complaint: str) -> None:
    program = parse(CUT, line, "G1 Y5")
    assert complaint in program.findings[0].reason
    assert program.findings[0].line == 2
    assert [move.end for move in program.moves] == [(0.0, 5.0, 0.0)]
    assert (program.motion_lines, program.understood_motion_lines) == (2, 1)


def test_unclear_motion_lines_lower_the_share() -> None:
    program = parse(CUT, "G1 X1", "G1 X=_NOWHERE", "G1 Y")
    assert (program.motion_lines, program.understood_motion_lines) == (3, 1)
    assert program.understood == pytest.approx(1 / 3)


@pytest.mark.parametrize("code", ["G33", "G5.1", "BSPLINE", "CIP"])
def test_splines_and_threads_are_straightened_and_listed_line_by_line(code: str) -> None:
    program = parse(CUT, f"{code} X1", "X2", "G1 X3")
    assert [finding.line for finding in program.findings] == [2, 3]
    assert "straight line" in program.findings[0].reason
    assert (program.motion_lines, program.understood_motion_lines) == (3, 1)


@pytest.mark.parametrize("line", ["G92 X0 Y0", "G10 L2 P1 X5", "G68 X0 Y0 R45", "G52 X10"])
def test_offset_codes_move_nothing(line: str) -> None:
    program = parse(CUT, "G1 X7", line, "Y1")
    assert "is not applied" in program.findings[0].reason
    assert program.moves[-1].end == (7.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("G41 X1", "radius compensation is not applied"),
        ("X1 RND=2", "corner rounding (RND) is not applied"),
        ("MIRROR X0 Y1", "MIRROR is not applied"),
        ("M6", "a tool change without a tool"),
        ("M00", "M0 waits for the operator"),
        ("G4", "a dwell needs a time"),
        ("G4 F-1", "a dwell needs a time"),
        ("X1 WHATEVER", "the word WHATEVER is not known here"),
        ("G55 X1", "same work offset as G54"),
        ("X1 E5", "the address E is not known here"),
        ("X1 V5", "the address V is not known here"),
        ("MCALL CYCLE81(10,0,2,-5)", "CYCLE81 is skipped"),
    ],
)
def test_what_is_not_applied_is_listed(line: str, complaint: str) -> None:
    program = parse(CUT, "G54 G1 X5", line)
    assert complaint in " ".join(reasons(program))
    assert program.findings[0].line == 3


def test_dwell_in_revolutions_needs_a_turning_spindle() -> None:
    assert "spindle stopped; left out" in reasons(parse("G4 S10"))[0]


def test_binary_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "part.mpf"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(ProgramError, match="binary"):
        read_program(path)
    with pytest.raises(ProgramError, match="binary"):
        parse_program("\x01\x02\x03\x04" * 20)


def test_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nothing\.mpf"):
        read_program(tmp_path / "nothing.mpf")


def test_old_encodings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "part.mpf"
    path.write_bytes("G1 X1 F10 S1 M3 ; Fräsen\r\n".encode("latin-1"))
    assert len(read_program(path).moves) == 1
    path.write_bytes(b"\xef\xbb\xbfG1 X1 F10 S1 M3\r\n")
    assert read_program(path).findings == ()


_SINGLE_WORDS = """
G0 G1 G2 G3 G4 G18 G28 G53 G81 G83 G80 G91 G95 M3 M5 M6 M30 T1 S1000 S-5 F100 F=R1 X1 X-5.5 X=IC(3) Y=R1*2 Z Z= I1 J-1
CR=5 R5 R1=5 R1=R1+1 #1=2 X#1 TURN=2 B90 C=DC(10) _A=3 _A=1/0 TRAORI SUPA MCALL L10 FOO FOO(1,2) AA: GOTOC GOTOS LOOP
ENDLOOP ELSE ENDIF ENDFOR ENDWHILE REPEAT CASE % O100 N10 / (comment ;c P500 Q1 AP=3 RND=1 @ G=1 CYCLE832() ( " X=((1
X=1EX400 MSG("x") MSG("
"""
_PHRASES = (
    *("DEF REAL _A", "AROT Z45", "TRANS X1", "GOTOB AA", "GOTOF AA", "IF R1<5 GOTOB AA", "IF R1>2", "WHILE R1<3"),
    *("FOR R2=1 TO 3", "UNTIL R1>3"),
)
FRAGMENTS = st.sampled_from([*_SINGLE_WORDS.split(), *_PHRASES])
NC_LIKE = st.lists(st.lists(FRAGMENTS, min_size=1, max_size=5).map(" ".join), max_size=15).map("\n".join)


@settings(max_examples=400)
@example("GOTOB AA ENDLOOP\nLOOP AA:")
@given(st.one_of(NC_LIKE, st.text(max_size=200)))
def test_arbitrary_text_raises_nothing_but_program_errors(text: str) -> None:
    try:
        program = parse_program(text)
    except ProgramError:
        return
    assert 0 <= program.understood_motion_lines <= program.motion_lines <= program.lines
    assert all(1 <= finding.line <= program.lines for finding in program.findings)
