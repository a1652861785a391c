"""The command: exit codes, JSON, and a report people can read."""

import json
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError, TableError
from crossfeed.windows.audits.run import CHECKS, audit, run_checks
from crossfeed.windows.split import split_table
from tests.typed import typed
from tests.windows.audits.conftest import case_of
from tests.windows.tables import random_table


def test_a_sound_table_exits_with_0_and_a_broken_one_with_1(tmp_path: Path) -> None:
    table = random_table([60] * 8)
    table.write(tmp_path / "sound.parquet")
    table.time[30:60] += 9.0
    table.write(tmp_path / "broken.parquet")
    sound = typed("audit", tmp_path / "sound.parquet", "--only", "clock")
    assert sound.returncode == 0
    assert sound.stderr.startswith("next: crossfeed train --table ")
    broken = typed("audit", tmp_path / "broken.parquet", "--only", "clock")
    assert (broken.returncode, broken.stderr) == (1, "")
    for word in ("violation", "measured", "means", "cause", "to do"):
        assert word in broken.stdout


def test_json_holds_the_same_findings(tmp_path: Path) -> None:
    table = random_table([60] * 8)
    table.time[30:60] += 9.0
    table.write(tmp_path / "table.parquet")
    split_table(table).write(tmp_path / "split.json")
    result = typed("audit", tmp_path / "table.parquet", "--json", "--split", tmp_path / "split.json")
    content = json.loads(result.stdout)
    assert result.returncode == 1
    assert content["violations"] == sum(finding["severity"] == "violation" for finding in content["findings"]) == 1
    assert set(content["ran"]) | set(content["skipped"]) == set(CHECKS)


def test_errors_are_told_without_a_traceback(tmp_path: Path) -> None:
    result = typed("audit", tmp_path / "nowhere.parquet")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "no file" in result.stderr


def test_an_unknown_check_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no check 'unit'"):
        audit([tmp_path / "table.parquet"], only=["unit"])


def test_findings_come_most_severe_first() -> None:
    table = random_table([60] * 8)
    table.sensors[:, 0] = 1.0
    table.time[30:60] += 9.0
    severities = [finding.severity for finding in run_checks(case_of(table)).findings]
    assert severities == ["violation", "warning"]


@pytest.mark.parametrize("rows", [2, 40, 60, 100, 140, 150])
def test_a_table_of_140_rows_or_fewer_ended_in_a_traceback_with_the_exit_code_of_a_violation(rows: int) -> None:
    report = run_checks(case_of(random_table([rows])), only=["causality"])
    assert (report.exit_code, report.findings) == (0, ())


def test_a_causality_probe_that_could_not_run_says_so() -> None:
    report = run_checks(case_of(random_table([1, 1, 1])), only=["causality"])
    assert [(finding.severity, finding.measured.partition(":")[0]) for finding in report.findings] == [
        ("note", "not probed")
    ]


def test_a_file_without_any_known_column_passed_with_0_violations(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("time,c1,c2\n" + "\n".join(f"{i},{i % 7},{i % 3}" for i in range(200)))
    with pytest.raises(TableError, match="No column of log has a name that tells what it measures: c1, c2"):
        audit([tmp_path / "log.csv"])
    report = audit([tmp_path / "log.csv"], only=["clock", "units", "commands", "twins"])
    assert report.ran == ("clock",)
    assert set(report.skipped) == {"units", "commands", "twins"}
