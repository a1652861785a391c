"""Numbers and tables on a terminal: nothing is invented, cut or broken."""

import io
import json
import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from crossfeed.cli.render.printing import bounds, estimate, grid, number, print_json, print_table, short
from crossfeed.evaluation.statistics import Interval
from crossfeed.show.tables import column_widths, named, significant


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
def test_a_number_can_be_read_back_to_three_digits(value: float) -> None:
    assert float(number(value).replace(",", "")) == pytest.approx(
        value, rel=5.1e-3, abs=5.1e-4 if abs(value) >= 0.001 else 0.0
    )
    assert float(short(value).replace(",", "")) == pytest.approx(value, rel=5.1e-3)
    assert len(number(value)) <= 10


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (math.nan, "-"), (0.0, "0.000"), (0.12345, "0.123"), (-3.2, "-3.200"), (0.0002, "0.0002"),
     (1234567.0, "1,234,567")],
)  # fmt: skip
def test_numbers_look_alike_everywhere(value: float | None, text: str) -> None:
    assert number(value) == text


def test_an_interval_without_bounds_stands_alone() -> None:
    assert estimate(Interval(0.8, 0.7, 0.9, 5)) == "0.800 (0.700 to 0.900)"
    assert estimate(Interval(0.8, None, None, 2)) == "0.800"
    assert bounds(Interval(0.8)) == "-"
    assert estimate(Interval(None)) == "-"


def test_json_is_one_document_also_of_a_dataclass(capsys: pytest.CaptureFixture[str]) -> None:
    @dataclass
    class Found:
        name: str
        values: tuple[int, ...]

    print_json(Found("Fräse", (1, 2)))
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"name": "Fräse", "values": [1, 2]}
    assert "Fräse" in printed


def test_numbers_of_a_wide_table_are_never_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    names = ["candidate", *(f"metric{number}" for number in range(5))]
    print_table("Wide", names, [["a candidate with a long name", *(10.0 + 1.111 * column for column in range(5))]])
    shown = capsys.readouterr().out
    for column in range(5):
        assert f"{10.0 + 1.111 * column:.3f}" in shown


def test_ten_columns_fit_eighty_characters_and_no_number_is_cut() -> None:
    # On a terminal of 80 characters an evaluation showed "-0.0…" and "pers…".
    table = grid("", ["", *(f"name {number}" for number in range(8)), "RMSE, 95 % over runs"])
    table.add_row("linear drift", *(f"-0.{number}21" for number in range(8)), "0.123 to 0.456")
    target = Console(file=io.StringIO(), width=80)
    target.print(table)
    shown = target.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert all(f"-0.{number}21" in shown for number in range(8))


@pytest.mark.parametrize(
    ("value", "text"),
    [(8000.0, "8,000"), (15.0, "15.0"), (999.7, "1,000"), (0.0, "0"), (-0.0272, "-0.0272"), (3e9, "3.00e+09")],
)  # fmt: skip
def test_a_speed_is_not_written_with_an_exponent(value: float, text: str) -> None:
    assert significant(value) == text


def test_a_model_of_832_machines_named_every_one_of_them() -> None:
    assert named(["mill_a", "mill_b"]) == "mill_a, mill_b"
    assert named([f"fleet_{number}" for number in range(832)]) == "832 machines"


def test_a_long_reason_did_not_break_the_words_beside_it() -> None:
    assert column_widths([["why", "too few runs to be sure of it"], ["trust it?", "with care"]], 30) == [21, 9]
    assert column_widths([["a"], ["-0.123 to 0.456"]], 5) == [1, 6], "no number is cut, however narrow it is"
