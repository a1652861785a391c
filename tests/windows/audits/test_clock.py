"""Clocks that stand, jump or run backwards are found."""

from dataclasses import replace

import numpy as np
import pytest

from crossfeed.logs.table import Table
from crossfeed.windows.audits.clock import FROZEN_ROWS, check_clock
from crossfeed.windows.audits.subject import Finding
from tests.windows.audits.conftest import case_of
from tests.windows.tables import random_table


def _with_time(change: str) -> Table:
    table = random_table([60] * 4)
    time = table.time.copy()
    if change == "gap":
        time[30:60] += 7.0
    elif change == "repeated":
        time[30:60] -= 1.0
    elif change == "backwards":
        time[30:60] -= 5.0
    elif change == "uneven":
        time[30] -= 0.4
    elif change == "no number":
        time[30] = np.nan
    return replace(table, time=time)


def _findings(table: Table) -> list[Finding]:
    return list(check_clock(case_of(table)))


def test_an_even_clock_passes_and_may_restart_in_every_group() -> None:
    assert not _findings(_with_time("nothing"))


@pytest.mark.parametrize("change", ["gap", "repeated", "backwards", "no number"])
def test_a_broken_clock_is_a_violation(change: str) -> None:
    violations = [finding for finding in _findings(_with_time(change)) if finding.severity == "violation"]
    assert [finding.numbers["count"] for finding in violations] == [1]
    assert change in violations[0].measured
    assert "session000" in violations[0].measured


def test_jitter_is_a_warning() -> None:
    findings = _findings(_with_time("uneven"))
    assert {finding.severity for finding in findings if "uneven" in finding.measured} == {"warning"}


def test_a_frozen_logger_is_found() -> None:
    table = random_table([60] * 4)
    table.sensors[70:95] = table.sensors[70]
    findings = _findings(table)
    assert [finding.severity for finding in findings] == ["warning"]
    assert findings[0].numbers["longest"] == 24


def test_a_sensor_that_often_repeats_is_not_frozen() -> None:
    table = random_table([60] * 4)
    table.sensors[:] = np.round(table.sensors / 20.0)
    assert not _findings(table)


def test_a_logger_is_frozen_from_ten_repeated_rows_on() -> None:
    for repeated, found in ((FROZEN_ROWS - 1, 0), (FROZEN_ROWS, 1)):
        table = random_table([60] * 4)
        table.sensors[71 : 71 + repeated] = table.sensors[70]
        assert len(_findings(table)) == found
