"""`crossfeed program`: what an NC program does, as a table, a picture or a file of commands."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.options import Json, MotionFile


def program(
    file: Annotated[str, typer.Argument(help="NC program (Siemens 840D or ISO), or a name such as bundled:bracket.")],
    limits: MotionFile = None,
    feed_override: Annotated[float, typer.Option(help="Feed override, in per cent.")] = 100.0,
    rapid_override: Annotated[float, typer.Option(help="Rapid override, in per cent, up to 100.")] = 100.0,
    rate: Annotated[float, typer.Option(help="Commands per second in the picture and the CSV file.")] = 1.0,
    plot: Annotated[
        Path | None, typer.Option(help="Write the path and the commands over time as PNG, SVG, PDF.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the mean commands of each interval as CSV.")] = None,
    json: Json = False,
) -> None:
    """Show what an NC program does: length, times, tools, speeds, and every line that was not clear.

    Example: crossfeed program part.mpf --plot part.png --csv commands.csv
    """
    from crossfeed.cli.render.inputs import show_program
    from crossfeed.cli.render.printing import print_result
    from crossfeed.programs.bundled import program_path
    from crossfeed.programs.figures import draw_program
    from crossfeed.programs.limits import MotionLimits, read_motion_limits
    from crossfeed.programs.parse import read_program
    from crossfeed.programs.plan import plan
    from crossfeed.programs.summary import summarise
    from crossfeed.programs.trajectory import write_commands
    from crossfeed.progress import console

    parsed = read_program(program_path(file))
    motion_limits = read_motion_limits(limits) if limits else MotionLimits()
    trajectory = plan(parsed, motion_limits, feed_override=feed_override / 100.0, rapid_override=rapid_override / 100.0)
    if plot:
        draw_program(parsed, trajectory, plot, rate)
        console().print(f"Picture written to {plot}", markup=False)
    if csv:
        write_commands(trajectory.sample(rate, "mean"), trajectory.tools, csv)
        console().print(f"Commands written to {csv}", markup=False)
    summary = summarise(parsed, trajectory)
    print_result(summary, json, lambda: show_program(summary))
