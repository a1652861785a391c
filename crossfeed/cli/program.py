"""`crossfeed program`: what an NC program does, as a table, a picture or a file of commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from crossfeed.programs.summary import Summary

_SHOWN_FINDINGS = 20


def program(
    file: Annotated[str, typer.Argument(help="NC program (Siemens 840D or ISO), or a name such as bundled:bracket.")],
    limits: Annotated[Path | None, typer.Option(help="YAML file with the machine's motion limits.")] = None,
    feed_override: Annotated[float, typer.Option(help="Feed override, in per cent.")] = 100.0,
    rapid_override: Annotated[float, typer.Option(help="Rapid override, in per cent, up to 100.")] = 100.0,
    rate: Annotated[float, typer.Option(help="Commands per second in the picture and the CSV file.")] = 1.0,
    plot: Annotated[
        Path | None, typer.Option(help="Write the path and the commands over time as PNG, SVG, PDF.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the mean commands of each interval as CSV.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, with every finding.")] = False,
) -> None:
    """Show what an NC program does: length, times, tools, speeds, and every line that was not clear.

    Example: crossfeed program part.mpf --plot part.png --csv commands.csv
    """
    from crossfeed.programs.bundled import program_path
    from crossfeed.programs.export import write_commands
    from crossfeed.programs.figures import draw_program
    from crossfeed.programs.limits import MotionLimits, read_limits
    from crossfeed.programs.parse import read_program
    from crossfeed.programs.plan import plan
    from crossfeed.programs.summary import summarise
    from crossfeed.progress import console

    parsed = read_program(program_path(file))
    motion_limits = read_limits(limits) if limits else MotionLimits()
    trajectory = plan(parsed, motion_limits, feed_override=feed_override / 100.0, rapid_override=rapid_override / 100.0)
    if plot:
        draw_program(parsed, trajectory, plot, rate)
        console().print(f"Picture written to {plot}", markup=False)
    if csv:
        write_commands(trajectory.sample(rate, "mean"), trajectory.tools, csv)
        console().print(f"Commands written to {csv}", markup=False)
    _show(summarise(parsed, trajectory), json)


def _show(summary: "Summary", as_json: bool) -> None:
    if as_json:
        from json import dumps

        typer.echo(dumps(summary.as_dict(), indent=2, ensure_ascii=False))
        return
    from rich.markup import escape
    from rich.table import Table

    from crossfeed.progress import output

    table = Table(title=escape(summary.name), show_header=False, title_justify="left")
    for label, value in _rows(summary):
        table.add_row(label, escape(value))
    console = output()
    console.print(table)
    if not summary.findings:
        return
    findings = Table("line", "", "text", "finding", title="Findings", title_justify="left")
    for finding in summary.findings[:_SHOWN_FINDINGS]:
        findings.add_row(str(finding.line), finding.severity, escape(finding.text), escape(finding.reason))
    console.print(findings)
    if len(summary.findings) > _SHOWN_FINDINGS:
        console.print(f"{len(summary.findings) - _SHOWN_FINDINGS} more findings; --json lists all of them.")


def _rows(summary: "Summary") -> list[tuple[str, str]]:
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
