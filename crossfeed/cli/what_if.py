"""`crossfeed what-if`: plans rolled forward row by row and compared."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.options import At, Channels, Commands, Device, History, Json, Model, MotionFile, Plot, Session
from crossfeed.cli.start import quick_start


def what_if(
    model: Model,
    history: History,
    commands: Commands,
    compare: Annotated[
        list[str] | None, typer.Option(help="A further plan, such as part.mpf@feed=80; can be repeated.")
    ] = None,
    session: Session = None,
    at: At = None,
    seconds: Annotated[float | None, typer.Option(help="Forecast only the first seconds of every plan.")] = None,
    samples: Annotated[int, typer.Option(help="Sampled futures per plan, at least 20.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same futures.")] = 0,
    limit: Annotated[
        list[str] | None, typer.Option(help="Chance of passing a limit such as 'spindle_power<=5 kW'; repeatable.")
    ] = None,
    channels: Channels = "",
    feed_override: Annotated[float, typer.Option(help="Feed override of NC programs, in per cent.")] = 100.0,
    rapid_override: Annotated[float, typer.Option(help="Rapid override of NC programs, in per cent.")] = 100.0,
    spindle_override: Annotated[float, typer.Option(help="Spindle override of NC programs, in per cent.")] = 100.0,
    limits: MotionFile = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for forecast.json, forecast.csv, forecast.png.")
    ] = None,
    plot: Plot = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Roll plans forward in sampled futures: every row of every sensor, energy, peaks; several plans side by side.

    Example: crossfeed what-if run/ --history log.parquet --commands part.mpf --compare part.mpf@feed=80 --plot a.png
    """
    with quick_start():
        from crossfeed.cli.render.printing import print_json
        from crossfeed.front.what_if import what_if as compare_plans
        from crossfeed.programs.limits import read_motion_limits
        from crossfeed.serving.plan import Overrides

    answer = compare_plans(
        model, history, [commands, *(compare or [])], session=session, at=at, seconds=seconds, samples=samples,
        seed=seed, limits=limit or [], device=device,
        channels=[name.strip() for name in channels.split(",") if name.strip()],
        overrides=Overrides(feed_override, rapid_override, spindle_override),
        motion_limits=read_motion_limits(limits) if limits else None, out=out, plot=plot,
    )  # fmt: skip
    if json:
        print_json(answer)
    else:
        typer.echo(repr(answer))
