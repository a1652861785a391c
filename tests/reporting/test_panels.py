"""Diagrams: ticks are round and inside, drawings stay inside their frame, gaps stay gaps."""

import math
import re
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from crossfeed.reporting.panels import XY, Band, Bars, Dot, Dots, Line, tick_text, ticks
from crossfeed.reporting.svg import LONGEST_NAME, draw, shortened, without_common_start

NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)


@given(NUMBERS, NUMBERS, st.booleans())
def test_ticks_are_inside_few_and_evenly_spaced(one: float, other: float, whole: bool) -> None:
    low, high = sorted((one, other))
    assume(high - low > 1e-6 * max(abs(low), abs(high), 1.0))
    found = ticks(low, high, 5, whole)
    span = high - low
    assert len(found) <= 8
    assert all(low - 1e-6 * span <= tick <= high + 1e-6 * span for tick in found)
    steps = [after - before for before, after in pairwise(found)]
    assert all(math.isclose(step, steps[0], rel_tol=1e-6) for step in steps)
    if whole:
        assert all(float(tick).is_integer() for tick in found)


def test_whole_numbers_from_0_to_11_were_marked_in_steps_of_two_and_a_half() -> None:
    assert ticks(0, 11, 5, whole=True) == [0.0, 5.0, 10.0]
    assert ticks(0, 110, 5, whole=True) == [0.0, 25.0, 50.0, 75.0, 100.0]
    assert ticks(0, 11, 5) == [0.0, 2.5, 5.0, 7.5, 10.0]


def test_neighbouring_ticks_have_different_texts() -> None:
    for low, high in ((0.0, 1.0), (0.998, 1.002), (-3.0, 900.0), (0.0, 0.01), (0.0, 12.0)):
        marks = ticks(low, high)
        texts = [tick_text(mark, marks[1] - marks[0]) for mark in marks]
        assert len(set(texts)) == len(texts), texts


@given(st.lists(st.one_of(st.none(), NUMBERS), min_size=1, max_size=12))
def test_lines_are_drawn_inside_the_panel_and_gaps_stay_gaps(values: list[float | None]) -> None:
    line = Line("a", list(range(len(values))), values)
    text = str(draw(XY("title", "x", "y", (line,), level=(0.0, "zero"), moment=1.0)))
    assert "nan" not in text
    paths = re.findall(r'class="line line" d="M([^"]+)"', text)
    for x, y in (point.split(",") for path in paths for point in path.split("L")):
        assert 0 <= float(x) <= 360
        assert 0 <= float(y) <= 230
    stretches = "".join("x" if value is None else "o" for value in values).split("x")
    assert len(paths) == sum(len(stretch) > 1 for stretch in stretches)


def test_every_kind_of_mark_is_drawn() -> None:
    panel = XY(
        "all", "x", "y", (Line("s", [0, 1, 2], [0, 1, 0], 1, "step"), Line("p", [0, 1], [1, 1], 2, "points")),
        (Band("b", [0, 1], [0, 0], [1, 1], 3, True),), (Bars("h", [0.0, 1.0, 2.0], [0.5, None]),),
    )  # fmt: skip
    text = str(draw(panel))
    for mark in ('class="line step"', 'class="dot"', 'class="band faint"', 'class="bar"'):
        assert mark in text


def test_a_value_beyond_the_limits_is_an_arrow_at_the_edge() -> None:
    panel = Dots(
        "t", "x", ("near", "far", "none"), (("s", 0, (Dot(1.0, 0.5, 9.0), Dot(50.0), Dot(None))),), limits=(0.0, 4.0)
    )
    text = str(draw(panel))
    assert text.count("<circle") == 1
    assert text.count('<path class="dot"') == 1
    assert "50.0" in text, "the true value is told when one points at it"


def test_a_panel_without_a_single_number_is_still_a_panel() -> None:
    for panel in (XY("t", "x", "y", (Line("a", [], []),)), Dots("t", "x", (), ())):
        assert str(draw(panel)).startswith("<svg")


@pytest.mark.parametrize(
    ("names", "shown"),
    [(["m/a", "m/b"], ["a", "b"]), (["m/a", "n/b"], ["m/a", "n/b"]), (["m/a"], ["m/a"]), (["a", "b"], ["a", "b"])],
)
def test_a_machine_that_all_runs_share_is_not_repeated(names: list[str], shown: list[str]) -> None:
    assert without_common_start(names) == shown


@given(st.text(max_size=60))
def test_a_long_name_gives_way_in_its_middle(name: str) -> None:
    short = shortened(name)
    assert len(short) <= max(LONGEST_NAME, 0)
    assert short[:5] == name[:5]
    assert short[-5:] == name[-5:] or len(name) < 5
