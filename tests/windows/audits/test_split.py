"""Splits that leak are found, whoever wrote them."""

import json

import pytest

from crossfeed.errors import TableError
from crossfeed.logs.table import Table
from crossfeed.windows.audits.split import check_split
from crossfeed.windows.audits.subject import Finding
from crossfeed.windows.split import split_table
from tests.windows.audits.conftest import case_of
from tests.windows.tables import random_table


def _table() -> Table:
    return random_table([60] * 12, programs=[f"part{i // 2}" for i in range(12)])


def _findings(table: Table, split: dict) -> list[Finding]:
    return list(check_split(case_of(table, split=split)))


def _split(table: Table, by: str = "session") -> dict:
    return json.loads(split_table(table, by).to_json())


def test_a_split_by_program_passes() -> None:
    table = _table()
    assert not _findings(table, _split(table, "program"))


def test_programs_on_both_sides_are_a_warning_in_a_split_by_session() -> None:
    table = _table()
    findings = _findings(table, _split(table))
    assert [(finding.severity, finding.subject) for finding in findings] == [("warning", "NC programs")]
    assert findings[0].cause == "the split goes by session"


def test_programs_on_both_sides_are_a_violation_where_the_split_promises_otherwise() -> None:
    table = _table()
    (finding,) = (f for f in _findings(table, _split(table) | {"by": "program"}) if f.severity == "violation")
    assert finding.subject == "NC programs"
    assert finding.cause == "the split goes by program but was made for other sessions"


@pytest.mark.parametrize("alias", ["mill/session003", "session003", "mill/run0/session003"])
def test_a_session_on_two_sides_is_found_under_any_of_its_names(alias: str) -> None:
    table = _table()
    split = _split(table, "session")
    side = next(part for part in ("train", "validation", "test") if "mill/session003" in split[part])
    other = "test" if side != "test" else "train"
    split[other] = [*split[other], alias]
    violations = [finding for finding in _findings(table, split) if finding.severity == "violation"]
    assert violations
    assert "session003" in violations[0].subject


def test_an_empty_side_is_found() -> None:
    table = _table()
    split = _split(table)
    split["train"] += split["validation"]
    split["validation"] = []
    assert ("violation", "validation") in {(f.severity, f.subject) for f in _findings(table, split)}


def test_copied_sessions_on_two_sides_are_found() -> None:
    table = _table()
    split = _split(table)
    number = {part: int(split[part][0][-3:]) for part in ("train", "test")}
    rows = {part: slice(60 * number[part], 60 * number[part] + 60) for part in number}
    table.sensors[rows["test"]] = table.sensors[rows["train"]]
    assert any("identical" in f.measured for f in _findings(table, split) if f.severity == "violation")


def test_sessions_that_the_split_does_not_know_are_named() -> None:
    table = _table()
    split = _split(table)
    split["train"] = [*split["train"][1:], "mill/elsewhere"]
    texts = [finding.measured for finding in _findings(table, split) if finding.severity == "warning"]
    assert any("on no side" in text for text in texts)
    assert any("elsewhere" in text for text in texts)


def test_a_target_machine_outside_the_split_is_only_noted() -> None:
    source, target = _table(), random_table([60] * 3, 1, machine="target")
    findings = list(check_split(case_of(source, target, split=_split(source, "program"))))
    assert [(finding.severity, finding.subject) for finding in findings] == [("note", "target")]


def test_a_split_without_sides_is_refused() -> None:
    with pytest.raises(TableError, match="names 0 sides"):
        _findings(_table(), {"by": "session"})


def test_a_copy_on_the_side_of_its_original_does_not_leak() -> None:
    table = _table()
    split = _split(table)
    one, two = (int(unit[-3:]) for unit in split["train"][:2])
    table.sensors[60 * two : 60 * two + 60] = table.sensors[60 * one : 60 * one + 60]
    assert not [finding for finding in _findings(table, split) if finding.severity == "violation"]
