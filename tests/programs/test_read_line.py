"""Lines of NC text are read into words, calls and jumps, whatever their spacing and comments."""

import pytest

from crossfeed.programs.gcodes import KEYWORDS
from crossfeed.programs.read_line import Call, Jump, ProgramLine, Word, read_line


def read(text: str) -> ProgramLine:
    return read_line(text, 1, KEYWORDS)


@pytest.mark.parametrize(
    "text",
    [
        "G1 X10 Y-5.5 F200",
        "G1X10Y-5.5F200",
        "g1 x10 y-5.5 f200",
        "N10 G1 X10 Y-5.5 F200",
        "N10G1X10Y-5.5F200",
        "  G1  X10   Y-5.5\tF200  ",
        "G1 X10 Y-5.5 F200 ; to the corner",
        "G1 X10 (first axis) Y-5.5 F200",
        "(start) G1 X+10. Y-05.50 F200.",
        "G1 X=10 Y=-5.5 F=200",
        "G1 X = 2*5 Y=-(5+.5) F=200",
        "/ N10 G1 X10 Y-5.5 F200",
        "N10 /1 G1 X10 Y-5.5 F200",
    ],
)
def test_spelling_does_not_matter(text: str) -> None:
    program_words = [(word.address, word.value) for word in read(text).items if isinstance(word, Word)]
    if "=" not in text:
        assert program_words == [("G", 1.0), ("X", 10.0), ("Y", -5.5), ("F", 200.0)]
    assert [address for address, _ in program_words] == ["G", "X", "Y", "F"]
    assert read(text).problem == ""


def test_block_number_label_and_skip() -> None:
    assert read("N0120 X1").block == "120"
    assert read("/N10 X1").skippable
    assert read("N10 START: X1").label == "START"


def test_parentheses_are_comments_in_iso_and_arguments_in_siemens() -> None:
    assert read("M6 (FACE MILL)").items == (Word("M", 6.0),)
    assert read("M6(FACE MILL").items == (Word("M", 6.0),)
    assert read("TRAFOOF (off)").items == (Call("TRAFOOF", None),)
    assert read("CYCLE832(_T,1,1)").items == (Call("CYCLE832", ("_T", "1", "1")),)
    assert read("CYCLE800()").items == (Call("CYCLE800", ()),)
    assert read("CYCLE81(10.,0.,,-6)").items == (Call("CYCLE81", ("10.", "0.", "", "-6")),)


def test_strings_keep_case_semicolons_and_brackets() -> None:
    assert read('MSG("Turn; the (part)")').items == (Call("MSG", ("Turn; the (part)",)),)
    assert read('t="End mill 8"').items == (Word("T", "End mill 8"),)


def test_jumps() -> None:
    (jump,) = read("IF R1<5 GOTOB AGAIN").items
    assert isinstance(jump, Jump)
    assert (jump.keyword, jump.target) == ("GOTOB", "AGAIN")
    (jump,) = read("IF [#1 LT 5] GOTO 100").items
    assert isinstance(jump, Jump)
    assert jump.target == "100"
    (jump,) = read("GOTOF N0050").items
    assert isinstance(jump, Jump)
    assert jump.target == "N50"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("G1 X", "address X has no value"),
        ("G1 X=", "last value is missing"),
        ("X10 = 5 6", "'6' does not belong here"),
        ("G1 @ X5", "'@ X5' cannot be read"),
        ('MSG("open', "cannot be read"),
        ("CYCLE81(1,2", "closing bracket of CYCLE81"),
        ("DEF REAL", "names no variable"),
        ("DEF FLOAT _A", "not a known type"),
        ("DEF REAL _A[5]", "arrays"),
        ("GOTOF A", "jump without a target"),
        ("GOTOF", "jump without a target"),
        ("GOTOF AHEAD GOTOB BACK", "more than one jump"),
        ("REPEAT PART P=3", "not supported"),
        ("FOR R1=1", "FOR without TO"),
    ],
)
def test_problem_is_named(text: str, complaint: str) -> None:
    line = read(text)
    assert complaint in line.problem
    assert line.items == ()


def test_long_line_with_a_comment_does_not_try_every_split_of_its_digits() -> None:
    words = " ".join(f"{letter}123456789" for letter in "GXYZABCIJKFSTM")
    line = read(f"{words} (the end)")
    assert len(line.items) == 14
    assert read("X1 " + " " * 5000 + "Y2 (the end)").items == (Word("X", 1.0), Word("Y", 2.0))
