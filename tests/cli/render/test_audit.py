"""An audit on a terminal: violations with cause and remedy, notes on a line, counts at the end."""

import pytest

from crossfeed.cli.render.results import show_audit
from crossfeed.windows.audits.subject import AuditReport, Finding, Severity


def finding(severity: Severity, subject: str) -> Finding:
    said = ("1,000 times too large", "W, not kW", "a wrong unit", "Declare [kW].")
    return Finding(severity, subject, *said, check="units")


def test_findings_have_their_reasons_and_notes_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = (finding("violation", "power"), finding("note", "speed"), finding("note", "feed"))
    show_audit(AuditReport(("a.parquet",), found, ("units",), {"windows": "needs a window list"}))
    shown = capsys.readouterr().out
    assert "violation  units  power" in shown
    assert "to do    Declare [kW]." in shown, "brackets are not markup"
    assert shown.count("cause") == 1
    assert "  units: speed: 1,000 times too large" in shown
    assert "1 violation, 0 warnings, 2 notes in a.parquet" in shown
    assert "not run: windows needs a window list" in shown


def test_sensors_that_a_machine_lacks_filled_the_screen_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    said = ("none of 60 rows has a value", "absent", "it does not exist", "Nothing.")
    names = ("x_torque", "y_torque", "ambient_temp")
    found = tuple(Finding("note", f"mill (1): {name}", *said, check="dead") for name in names)
    show_audit(AuditReport(("a.parquet",), found, ("dead",), {}))
    shown = capsys.readouterr().out
    assert "dead: mill (1), x_torque, y_torque, ambient_temp: none of 60 rows has a value" in shown
    assert "3 notes in a.parquet" in shown
