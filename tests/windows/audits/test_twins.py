"""The same recording under two names is found."""

from dataclasses import replace

import numpy as np

from crossfeed.windows.audits.split import check_twins
from tests.windows.audits.conftest import case_of
from tests.windows.tables import random_table


def test_one_recording_as_two_machines() -> None:
    one = random_table([60] * 4, machine="a")
    two = replace(one, groups=tuple(replace(group, machine="b") for group in one.groups)).without(["s0"])
    findings = list(check_twins(case_of(one, two)))
    assert [(finding.subject, finding.numbers["pairs"]) for finding in findings] == [("a and b", 4)]


def test_a_session_copied_inside_a_machine() -> None:
    table = random_table([60] * 4)
    table.sensors[60:120] = table.sensors[:60]
    findings = list(check_twins(case_of(table)))
    assert [finding.severity for finding in findings] == ["violation"]
    assert "session000" in findings[0].measured
    assert "session001" in findings[0].measured


def test_equal_commands_and_resting_machines_are_no_twins() -> None:
    one, two = random_table([60] * 4, 0, machine="a"), random_table([60] * 4, 1, machine="b")
    two.commands[:] = one.commands
    one.sensors[:60] = two.sensors[:60] = np.zeros(3)
    assert not list(check_twins(case_of(one, two)))


def test_sessions_of_sixteen_rows_are_compared_and_shorter_ones_agree_by_chance() -> None:
    for rows, pairs in ((15, 0), (16, 1)):
        table = random_table([rows] * 4)
        table.sensors[rows : 2 * rows] = table.sensors[:rows]
        assert len(list(check_twins(case_of(table)))) == pairs


def test_a_handful_of_values_is_no_recording() -> None:
    for values, pairs in ((4, 0), (5, 1)):
        table = random_table([60] * 4)
        table.sensors[:60, 0] = np.arange(60) % values
        table.sensors[60:120, 0] = table.sensors[:60, 0]
        assert len(list(check_twins(case_of(table)))) == pairs
