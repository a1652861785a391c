"""Windows that cross a group or that two sides share are found."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.windows.audits.subject import WindowRows
from crossfeed.windows.audits.windows import audit_windows, check_windows
from crossfeed.windows.split import split_table
from tests.windows.audits.conftest import case_of
from tests.windows.tables import random_table


def _rows(*windows: tuple[int, int, str]) -> WindowRows:
    first, last, part = zip(*windows, strict=True)
    return WindowRows(np.array(first), np.array(last), np.array(part))


def test_the_windows_crossfeed_makes_pass() -> None:
    table = random_table([60, 50, 80, 60, 47, 90, 60, 60])
    assert not list(check_windows(case_of(table, split=json.loads(split_table(table).to_json()))))
    assert not list(check_windows(case_of(table)))


def test_a_window_over_a_boundary_is_found() -> None:
    table = random_table([60, 60])
    findings = list(audit_windows(_rows((0, 47, "train"), (40, 87, "train")), table.groups))
    assert [finding.numbers["windows"] for finding in findings] == [1]
    assert "rows 40 to 87" in findings[0].measured


def test_rows_shared_by_two_sides_are_found() -> None:
    table = random_table([60, 60])
    findings = list(audit_windows(_rows((0, 47, "train"), (5, 52, "test")), table.groups))
    assert [(finding.subject, finding.numbers["rows"]) for finding in findings] == [("train and test", 43)]


def test_windows_outside_the_table_are_found() -> None:
    table = random_table([60, 60])
    findings = list(audit_windows(_rows((-1, 46, "train"), (100, 147, "train"), (9, 8, "train")), table.groups))
    assert findings[0].numbers["windows"] == 3


@given(st.lists(st.tuples(st.integers(0, 119), st.integers(0, 20)), min_size=1, max_size=20))
@settings(max_examples=40)
def test_crossing_windows_are_counted_as_a_naive_loop_counts_them(windows: list[tuple[int, int]]) -> None:
    table = random_table([40, 50, 30])
    rows = _rows(*((first, min(119, first + length), "train") for first, length in windows))
    of_row = [number for number, group in enumerate(table.groups) for _ in range(len(group))]
    naive = sum(of_row[first] != of_row[last] for first, last in zip(rows.first, rows.last, strict=True))
    found = sum(int(finding.numbers["windows"]) for finding in audit_windows(rows, table.groups))
    assert found == naive


def test_one_list_for_two_machines_is_not_guessed_at() -> None:
    one, two = random_table([60] * 3, machine="a"), random_table([60] * 3, 1, machine="b")
    findings = list(check_windows(case_of(one, two, windows=_rows((0, 47, "train")))))
    assert [finding.severity for finding in findings] == ["note"]
