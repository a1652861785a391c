"""The table of every result: nothing is invented, cut or broken, wherever it is shown."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from crossfeed.show.formats import column_widths, html, markdown, notebook_html, rich_table, text
from crossfeed.show.tables import (
    Column,
    ResultTable,
    ShownByTables,
    named,
    number,
    plain_table,
    plural,
    significant,
    written,
)

COLUMNS = (Column("name", "name", "text"), Column("error", "error", "interval"))
ROWS: tuple[dict[str, Any], ...] = (
    {"name": "a", "error": {"estimate": 0.5, "low": 0.4, "high": 0.6}},
    {"name": "<b>", "error": {"estimate": -0.7, "low": -0.8, "high": None}},
)
TABLE = ResultTable("errors", "Two & two", COLUMNS, ROWS, lowest=("error",), remarks=("said beside it",))


def on_terminal(table: ResultTable, width: int = 80, **options: Any) -> str:
    target = Console(file=io.StringIO(), width=width)
    target.print(rich_table(table, width, **options))
    return target.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
def test_a_number_can_be_read_back_to_three_digits(value: float) -> None:
    for shown in (number(value).replace("−", "-"), significant(value)):
        assert float(shown.replace(",", "")) == pytest.approx(value, rel=5.1e-3, abs=5.1e-4 if value < 1 else 0.0)
    assert len(number(value)) <= 10


@pytest.mark.parametrize(
    ("count", "noun", "shown"),
    [(0, "run", "0 runs"), (1, "run", "1 run"), (2000, "run", "2,000 runs"), (1, "ledger entry", "1 ledger entry"),
     (3, "ledger entry", "3 ledger entries"), (2, "day", "2 days")],
)  # fmt: skip
def test_one_ledger_entries(count: int, noun: str, shown: str) -> None:
    assert plural(count, noun) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(8000.0, "8,000"), (15.0, "15.0"), (999.7, "1,000"), (0.0, "0"), (-0.0272, "-0.0272"), (3e9, "3.00e+09")],
)  # fmt: skip
def test_a_speed_is_not_written_with_an_exponent(value: float, shown: str) -> None:
    assert significant(value) == shown


def test_a_model_of_832_machines_named_every_one_of_them() -> None:
    assert named(["mill_a", "mill_b"]) == "mill_a, mill_b"
    assert named([f"fleet_{number}" for number in range(832)]) == "832 machines"


@pytest.mark.parametrize(
    ("value", "cell_format", "shown"),
    [("good", "light", "● yes"), ("a" * 64, "hash", "a" * 12), (0.91, "share", "91.0 %"), (1234, "count", "1,234"),
     (0.01, "seconds", "10.0 ms"), (7300.0, "seconds", "2.0 h"), ("failed", "interval", "failed"),
     (True, "text", "True")],
)  # fmt: skip
def test_every_kind_of_cell(value: Any, cell_format: Any, shown: str) -> None:
    assert written(value, cell_format) == shown


def test_bounds_stand_below_their_estimate_on_a_terminal() -> None:
    lines = [line.split() for line in on_terminal(TABLE).splitlines()]
    assert ["a", "0.500"] in lines
    assert ["0.400", "to", "0.600"] in lines
    assert ["<b>", "-0.700"] in lines, "a minus sign that every terminal knows"


def test_ten_columns_fit_eighty_characters_and_no_number_is_cut() -> None:
    # On a terminal of 80 characters an evaluation showed "-0.0…" and "pers…".
    heads = ["", *(f"name {at}" for at in range(8)), "RMSE, 95 % over runs"]
    row = ["linear drift", *(f"-0.{at}21" for at in range(8)), "0.123 to 0.456"]
    shown = on_terminal(plain_table("", heads, [row]))
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert all(f"-0.{at}21" in shown for at in range(8))


def test_numbers_of_a_wide_table_are_never_cut() -> None:
    heads = ["candidate", *(f"metric{at}" for at in range(5))]
    shown = on_terminal(plain_table("Wide", heads, [["a candidate with a long name", *([10.0, 11.1] * 3)[:5]]]), 50)
    assert shown.count("10.00") == 3
    assert shown.count("11.10") == 2


def test_a_long_reason_did_not_break_the_words_beside_it() -> None:
    assert column_widths([["why", "too few runs to be sure of it"], ["trust it?", "with care"]], 30) == [21, 9]
    assert column_widths([["a"], ["-0.123 to 0.456"]], 5) == [1, 6], "no number is cut, however narrow it is"


def test_columns_of_one_name_keep_their_own_cells() -> None:
    table = plain_table("", ["unit", "unit"], [["W", "kW"]], words=2)
    assert [table.rows[0][column.key] for column in table.columns] == ["W", "kW"]


def test_text_html_and_markdown_say_the_same() -> None:
    for shown in (text(TABLE), notebook_html(TABLE)):
        assert "said beside it" in shown
    assert "&lt;b&gt;" in html(TABLE)
    assert "<b>" not in html(TABLE)
    assert "<small>0.400 to 0.600</small>" in html(TABLE)
    assert "| <b> | **−0.700** |" in markdown(TABLE), "the lowest value stands out"
    assert 'class="interval best"' in html(TABLE)


def test_a_result_prints_its_first_look_and_keeps_the_rest() -> None:
    class Found(ShownByTables):
        def tables(self) -> list[ResultTable]:
            return [TABLE, ResultTable("more", "More", COLUMNS, ROWS)]

        def _first_look(self) -> list[ResultTable]:
            return self.tables()[:1]

    assert repr(Found()).startswith("Two & two\n")
    assert "More" not in repr(Found())
    assert Found()._repr_html_().count("<table>") == 1
    assert tuple(Found().figures()) == ()


def test_a_mark_colours_the_first_cell_of_its_row() -> None:
    table = plain_table("", ["", "sensor"], [["●", "power"], ["●", "speed"]], words=2)
    shown = rich_table(table, 80, marks=["red", "green"])
    assert [str(cell.style) for cell in shown.columns[0].cells] == ["red", "green"]  # type: ignore[union-attr]
