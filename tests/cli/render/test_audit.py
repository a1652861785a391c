"""An audit on a terminal: violations with cause and remedy, notes on a line, counts at the end."""

import pytest

from crossfeed.audits.finding import AuditReport, Finding, Severity
from crossfeed.cli.render.audit import show_audit


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
