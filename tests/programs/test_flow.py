"""Jumps and loops are followed, and those that never end are refused with their line."""

import pytest

from crossfeed.errors import ProgramError
from crossfeed.programs.blocks import Setup
from tests.programs.nc import AT_ZERO, parse

CUT = "S1000 M3 F600 G1"


def ends(*lines: str) -> list[float]:
    return [move.end[0] for move in parse(CUT, *lines).moves]


def test_jumps_forwards_and_backwards() -> None:
    assert ends("GOTOF THERE", "X1", "THERE: X2") == [2.0]
    assert ends("R1=0", "AGAIN: R1=R1+1", "X=R1", "IF R1<3 GOTOB AGAIN") == [1.0, 2.0, 3.0]
    assert ends("N10 X1", "GOTO N30", "N20 X2", "N30 X3") == [1.0, 3.0]
    assert ends("#1=1", "N0010 X#1", "#1=#1+1", "IF [#1 LE 3] GOTO 10") == [1.0, 2.0, 3.0]
    assert ends("GOTOC NOWHERE", "X1") == [1.0]


def test_structures() -> None:
    assert ends("R1=2", "IF R1==2", "X1", "ELSE", "X2", "ENDIF", "X3") == [1.0, 3.0]
    assert ends("R1=1", "IF R1==2", "X1", "ELSE", "X2", "ENDIF") == [2.0]
    assert ends("R1=1", "IF R1==2", "X1", "ENDIF", "X5") == [5.0]
    assert ends("R1=0", "WHILE R1<3", "R1=R1+1", "X=R1", "ENDWHILE") == [1.0, 2.0, 3.0]
    assert ends("FOR R1=1 TO 3", "X=R1*2", "ENDFOR", "X0") == [2.0, 4.0, 6.0, 0.0]
    assert ends("FOR R1=3 TO 1", "X=R1*2", "ENDFOR", "X9") == [9.0]
    assert ends("R1=0", "REPEAT", "R1=R1+1", "X=R1", "UNTIL R1>=2") == [1.0, 2.0]
    assert ends("R1=0", "LOOP", "R1=R1+1", "IF R1>2 GOTOF OUT", "X=R1", "ENDLOOP", "OUT: X9") == [1.0, 2.0, 9.0]


def test_nested_loops() -> None:
    lines = ("FOR R1=1 TO 2", "FOR R2=1 TO 2", "X=R1*10+R2", "ENDFOR", "ENDFOR")
    assert ends(*lines) == [11.0, 12.0, 21.0, 22.0]


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (("AGAIN: X1", "X0", "GOTOB AGAIN"), 4),
        (("LOOP", "X1", "X0", "ENDLOOP"), 5),
        (("R1=1", "WHILE R1>0", "X1", "ENDWHILE"), 5),
        (("X1", "GOTOS"), 3),
        (("REPEAT", "X1", "UNTIL 1==2"), 4),
    ],
)
def test_endless_loop_is_refused_with_its_line(lines: tuple[str, ...], line: int) -> None:
    with pytest.raises(ProgramError, match=rf"line {line}: .* endless loop"):
        parse(CUT, *lines)


def test_endless_loop_that_keeps_counting_is_refused() -> None:
    setup = AT_ZERO.model_copy(update={"repeated_lines_limit": 500})
    with pytest.raises(ProgramError, match=r"endless loop; after \d+ executed lines"):
        parse(CUT, "AGAIN: R1=1", "LOOP", "R1=R1+1", "ENDLOOP", setup=setup)


def test_long_programs_without_jumps_are_no_loops() -> None:
    setup = Setup(repeated_lines_limit=1)
    assert len(parse(CUT, *(f"X{number}" for number in range(50)), setup=setup).moves) == 50


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (("GOTOF NOWHERE",), "GOTOF NOWHERE leads nowhere"),
        (("BACK: X1", "GOTOF BACK"), "GOTOF BACK leads nowhere"),
        (("GOTOB AHEAD", "AHEAD: X1"), "GOTOB AHEAD leads nowhere"),
        (("IF R1<5 GOTOB THERE",), "R1 has no value here"),
        (("IF R1<5", "X1", "ENDIF"), "R1 has no value here"),
        (("IF 1==1", "X1"), "IF has no counterpart"),
        (("ENDWHILE",), "ENDWHILE has no counterpart"),
        (("WHILE 1==1", "ENDIF"), "ENDIF has no counterpart"),
        (("FOR R1=1 TO R9", "ENDFOR"), "FOR loop cannot be counted"),
    ],
)
def test_flow_without_an_honest_way_on_is_refused(lines: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ProgramError, match=complaint) as caught:
        parse(CUT, *lines)
    assert "line " in str(caught.value)
