"""Channels that say nothing are named, and what is allowed is only noted."""

import numpy as np

from crossfeed.windows.audits.clock import check_dead
from tests.windows.audits.conftest import case_of
from tests.windows.tables import random_table


def test_each_kind_of_dead_channel() -> None:
    table = random_table([60] * 4)
    table.sensors[:, 0] = np.nan
    table.sensors[:, 1] = 3.0
    table.sensors[5, 2] = np.inf
    table.commands[:, 0] = np.nan
    table.commands[7, 1] = np.nan
    found = {finding.subject: finding.severity for finding in check_dead(case_of(table))}
    assert found == {
        "mill: s0": "note",
        "mill: s1": "warning",
        "mill: s2": "violation",
        "mill: c0": "violation",
        "mill: c1": "warning",
    }


def test_a_living_table_has_no_finding() -> None:
    assert not list(check_dead(case_of(random_table([60] * 4, absent=0.2))))


def test_a_command_that_never_moves_is_not_told_to_be_left_out() -> None:
    table = random_table([60] * 4)
    table.commands[:, 0] = 0.0
    (found,) = check_dead(case_of(table))
    assert found.remedy.startswith("Look in the mapping")


def test_nought_was_not_wired_and_any_other_value_is_a_parameter() -> None:
    table = random_table([60] * 4)
    table.sensors[:, 0], table.sensors[:, 1] = 0.0, 0.5
    assert [found.cause for found in check_dead(case_of(table))] == [
        "a signal that was not wired or logged", "a parameter, not a measurement",
    ]  # fmt: skip
