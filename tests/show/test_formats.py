"""Tables as files: numbers come back exactly, LaTeX is balanced and escaped, spreadsheets run nothing."""

import csv
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crossfeed.show.formats import latex, tex, write_csv
from crossfeed.show.tables import MISSING, Column, ResultTable, interval, number, written

COLUMNS = (Column("name", "name", "text"), Column("value", "value"), Column("bound", "bound", "interval"))


def grid(rows: list[dict[str, Any]], **more: Any) -> ResultTable:
    return ResultTable("table", "A caption with 90 % & more_", COLUMNS, tuple(rows), **more)


def unescaped(text: str, letter: str) -> int:
    return len(re.findall(rf"(?<!\\){re.escape(letter)}", text))


@given(st.text())
def test_no_text_can_break_a_latex_table(text: str) -> None:
    escaped = tex(text)
    for letter in "&%#_":
        assert unescaped(escaped, letter) == 0
    assert unescaped(escaped, "{") == unescaped(escaped, "}")
    assert "\n" not in escaped


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_numbers_come_back_from_csv_bit_by_bit(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    write_csv(grid([{"name": "a", "value": value, "bound": None} for value in values]), path)
    with path.open(newline="", encoding="utf-8") as file:
        assert [float(row["value"]) for row in csv.DictReader(file)] == values


def test_bounds_and_spreads_take_columns_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"name": "a", "value": 1, "bound": {"estimate": 2.0, "low": 1.0, "high": None}},
        {"name": "b", "value": None, "bound": {"estimate": 3.0, "spread": 0.1}},
        {"name": "c", "value": "constant", "bound": 4.0},
    ]
    write_csv(grid(rows), tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()
    assert lines == [
        "name,value,bound,bound_low,bound_high,bound_spread",
        "a,1,2.0,1.0,,",
        "b,,3.0,,,0.1",
        "c,constant,4.0,,,",
    ]


@pytest.mark.parametrize("name", ["=1+1", "+x", "@sum", "-cmd"])
def test_a_name_that_a_spreadsheet_would_run_is_quoted(tmp_path: Path, name: str) -> None:
    write_csv(grid([{"name": name, "value": -1.5, "bound": None}]), tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()[1] == f"'{name},-1.5,"


def test_the_best_value_is_bold_and_ties_are_not() -> None:
    rows = [{"name": name, "value": value, "bound": None} for name, value in (("a", 0.5), ("b", 0.7))]
    assert r"\textbf{0.500}" in latex(grid(rows, lowest=("value",)))
    tied = [{**row, "value": 0.5} for row in rows]
    assert r"\textbf" not in latex(grid(tied, lowest=("value",)))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, MISSING), (math.nan, MISSING), (0.0, "0"), (0.12345, "0.123"), (-12.345, "−12.35"), (123.456, "123.5"),
     (12345.6, "12,346"), (0.000123, "1.23e−04"), (1e9, "1.00e+09")],
)  # fmt: skip
def test_numbers_have_the_digits_that_matter(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_bounds_have_the_digits_of_their_estimate() -> None:
    assert interval({"estimate": 0.5, "spread": 0.0004}) == "0.500 ± 0.000"
    assert interval({"estimate": 0.016, "low": -0.1, "high": 0.08}) == "0.016 (−0.100 to 0.080)"
    assert interval({"estimate": 0.5, "low": None, "high": None}) == "0.500"
    assert interval(None) == interval({"estimate": None}) == MISSING


@example(1.8e306, "share")
@given(
    st.one_of(st.none(), st.floats(), st.integers(-10, 10)), st.sampled_from(["number", "share", "seconds", "count"])
)
def test_a_cell_never_shows_nan_or_infinity(value: float | None, kind: Any) -> None:
    shown = written(value, kind)
    assert shown
    assert not re.search("nan|inf", shown)
