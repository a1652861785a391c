"""`crossfeed what-if`: plans rolled forward row by row and compared."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.start import quick_start


def what_if(
    model: Annotated[Path, typer.Argument(help="A model file, the folder of a run, or fleet: the shipped one.")],
    history: Annotated[Path, typer.Option(help="Table with the rows before the forecast.")],
    commands: Annotated[
        str, typer.Option("--commands", "-c", help="CSV, Parquet, NC program, or 'table': what really followed.")
    ],
    compare: Annotated[
        list[str] | None, typer.Option(help="A further plan, such as part.mpf@feed=80; can be repeated.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="Session of the history; the last one if left out.")] = None,
    at: Annotated[
        float | None, typer.Option(help="Seconds after the session's first row; its end if left out.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Forecast only the first seconds of every plan.")] = None,
    samples: Annotated[int, typer.Option(help="Sampled futures per plan, at least 20.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same futures.")] = 0,
    limit: Annotated[
        list[str] | None, typer.Option(help="Chance of passing NAME=VALUE, such as spindle_power=5.")
    ] = None,
    channels: Annotated[str, typer.Option(help="Sensors in the figure, with commas in between.")] = "",
    feed_override: Annotated[float, typer.Option(help="Feed override of NC programs, in per cent.")] = 100.0,
    rapid_override: Annotated[float, typer.Option(help="Rapid override of NC programs, in per cent.")] = 100.0,
    spindle_override: Annotated[float, typer.Option(help="Spindle override of NC programs, in per cent.")] = 100.0,
    limits: Annotated[Path | None, typer.Option(help="YAML file with the machine's motion limits.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for forecast.json, forecast.csv, forecast.png.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the figure as PNG, SVG or PDF.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:<number>.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Roll plans forward in sampled futures: every row of every sensor, energy, peaks; several plans side by side.

    Example: crossfeed what-if run/ --history log.parquet --commands part.mpf --compare part.mpf@feed=80 --plot a.png
    """
    with quick_start():
        from crossfeed.cli.render.grid import print_json
        from crossfeed.front.what_if import what_if as compare_plans
        from crossfeed.programs.limits import read_limits as read_motion_limits
        from crossfeed.serving.plan_program import Overrides

    answer = compare_plans(
        model, history, [commands, *(compare or [])], session=session, at=at, seconds=seconds, samples=samples,
        seed=seed, limits=limit or [], device=device,
        channels=[name.strip() for name in channels.split(",") if name.strip()],
        overrides=Overrides(feed_override, rapid_override, spindle_override),
        motion_limits=read_motion_limits(limits) if limits else None, out=out, plot=plot,
    )  # fmt: skip
    if json:
        print_json(answer.to_dict())
    else:
        typer.echo(repr(answer))
