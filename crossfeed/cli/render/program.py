"""An NC program on a terminal: its figures, and every line that was not clear."""

from rich.markup import escape
from rich.table import Table

from crossfeed.cli.render.grid import grid
from crossfeed.programs.summary import Summary
from crossfeed.progress import output

SHOWN_FINDINGS = 20


def show_program(summary: Summary) -> None:
    """Print lengths, times, tools and speeds, then the first findings."""
    table = Table(title=escape(summary.name), show_header=False, title_justify="left")
    for label, value in _rows(summary):
        table.add_row(label, escape(value))
    console = output()
    console.print(table)
    if not summary.findings:
        return
    rows = ([one.line, one.severity, escape(one.text), escape(one.reason)] for one in summary.findings[:SHOWN_FINDINGS])
    console.print(grid("Findings", ["line", "", "text", "finding"], rows, words=4))
    if len(summary.findings) > SHOWN_FINDINGS:
        console.print(f"{len(summary.findings) - SHOWN_FINDINGS} more findings; --json lists all of them.")


def _rows(summary: Summary) -> list[tuple[str, str]]:
    calls = ", ".join(f"{name} x{count}" for name, count in summary.skipped_calls.items())
    understood = f"{summary.understood_motion_lines} of {summary.motion_lines} ({summary.understood:.1%})"
    return [
        ("lines, blocks", f"{summary.lines}, {summary.blocks}"),
        ("motion lines understood", understood),
        ("path length", f"{summary.path_length:.1f} mm"),
        ("  cutting", f"{summary.cutting_length:.1f} mm"),
        ("  rapid", f"{summary.rapid_length:.1f} mm"),
        ("total time", _time(summary.total_time)),
        ("  cutting", f"{_time(summary.cutting_time)} (as programmed {_time(summary.programmed_cutting_time)})"),
        ("  rapid", _time(summary.rapid_time)),
        ("tools", ", ".join(summary.tools) or "none named"),
        ("spindle speeds", _span(summary.spindle_speeds, "rpm")),
        ("feeds", _span(summary.feeds, "mm/min")),
        ("skipped calls", calls or "none"),
        ("findings", str(len(summary.findings) or "none")),
    ]


def _time(seconds: float) -> str:
    return f"{int(seconds // 60)} min {seconds % 60:.1f} s"


def _span(values: tuple[float, ...], unit: str) -> str:
    """All values while they are few, otherwise their range."""
    if len(values) <= 8:
        return f"{', '.join(f'{value:g}' for value in values)} {unit}" if values else "none"
    return f"{len(values)} values from {values[0]:g} to {values[-1]:g} {unit}"
