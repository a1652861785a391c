"""An audit on a terminal: what is wrong, what it means, what to do."""

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from crossfeed.audits.finding import SEVERITIES, AuditReport, Finding
from crossfeed.grid import plural
from crossfeed.progress import output

COLOURS = {"violation": "bold red", "warning": "yellow", "note": "dim"}


def show_audit(report: AuditReport) -> None:
    """Print every finding with its cause and remedy, notes on a line each, and what was checked."""
    console = output()
    for finding in report.findings:
        if finding.severity != "note":
            _finding(console, finding)
    notes = report.of("note")
    if notes:
        console.print("[dim]notes[/]")
        for (check, machine, measured), channels in _gathered(notes).items():
            where = machine + (f", {', '.join(channels)}" if channels else "")
            console.print(f"  {check}: {where}: {measured}", markup=False, style="dim")
        console.print()
    counts = ", ".join(plural(len(report.of(name)), name) for name in SEVERITIES)
    console.print(f"{counts} in {', '.join(report.tables)}", markup=False, style="bold")
    console.print(f"checks: {', '.join(report.ran)}", markup=False)
    for name, reason in report.skipped.items():
        console.print(f"not run: {name} {reason}", markup=False)


def _gathered(notes: Sequence[Finding]) -> dict[tuple[str, str, str], list[str]]:
    """Notes that say the same about several channels of a machine, with those channels."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for note in notes:
        machine, _, channel = note.subject.partition(": ")
        channels = found.setdefault((note.check, machine, note.measured), [])
        channels += [channel] if channel else []
    return found


def _finding(console: Console, finding: Finding) -> None:
    head = Text.assemble((finding.severity, COLOURS[finding.severity]), f"  {finding.check}  {finding.subject}")
    console.print(head)
    for label, text in (
        ("measured", finding.measured),
        ("means", finding.meaning),
        ("cause", finding.cause),
        ("to do", finding.remedy),
    ):
        console.print(Padding(Text.assemble((f"{label:<9}", "bold"), text), (0, 0, 0, 2), expand=False))
    console.print()
