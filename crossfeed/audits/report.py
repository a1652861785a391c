"""An audit report on paper: JSON for programs, sections with numbers for people."""

import json
from typing import TYPE_CHECKING

from crossfeed.audits.finding import SEVERITIES, AuditReport, Finding

if TYPE_CHECKING:
    from rich.console import Console

_COLOURS = {"violation": "bold red", "warning": "yellow", "note": "dim"}


def print_report(report: AuditReport, *, as_json: bool = False) -> None:
    """Print to standard output."""
    if as_json:
        print(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
        return
    from crossfeed.progress import output

    console = output()
    for finding in report.findings:
        if finding.severity != "note":
            _print_finding(console, finding)
    notes = report.of("note")
    if notes:
        console.print("[dim]notes[/]")
        for note in notes:
            console.print(f"  {note.check}: {note.subject}: {note.measured}", markup=False, style="dim")
        console.print()
    counts = ", ".join(
        f"{len(report.of(name))} {name}{'s' if len(report.of(name)) != 1 else ''}" for name in SEVERITIES
    )
    console.print(f"{counts} in {', '.join(report.tables)}", markup=False, style="bold")
    console.print(f"checks: {', '.join(report.ran)}", markup=False)
    for name, reason in report.skipped.items():
        console.print(f"not run: {name} {reason}", markup=False)


def _print_finding(console: "Console", finding: Finding) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(
        Text.assemble((finding.severity, _COLOURS[finding.severity]), f"  {finding.check}  {finding.subject}")
    )
    for label, text in (
        ("measured", finding.measured),
        ("means", finding.meaning),
        ("cause", finding.cause),
        ("to do", finding.remedy),
    ):
        console.print(Padding(Text.assemble((f"{label:<9}", "bold"), text), (0, 0, 0, 2)), soft_wrap=False)
    console.print()
