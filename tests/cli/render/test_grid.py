"""Numbers and tables on a terminal: nothing is invented, cut or broken."""

import json
import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.cli.render.grid import bounds, estimate, number, print_json, print_table, short
from crossfeed.evaluation.statistics import Interval


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
def test_a_number_can_be_read_back_to_three_digits(value: float) -> None:
    assert float(number(value)) == pytest.approx(value, rel=5.1e-3, abs=5.1e-4 if abs(value) >= 0.001 else 0.0)
    assert float(short(value)) == pytest.approx(value, rel=5.1e-3)
    assert len(number(value)) <= 10


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (math.nan, "-"), (0.0, "0.000"), (0.12345, "0.123"), (-3.2, "-3.200"), (0.0002, "0.0002"),
     (1234567.0, "1.23e+06")],
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
