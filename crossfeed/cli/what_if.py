"""`crossfeed what-if` and `forecast`: plans rolled forward and compared, and the next rows in one pass."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossfeed.cli.common import (
    At,
    Channels,
    Commands,
    Device,
    History,
    Json,
    Model,
    MotionFile,
    Plot,
    Session,
    quick_start,
)

if TYPE_CHECKING:
    import polars as pl


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
        from crossfeed.front.fitted_model import what_if as compare_plans
        from crossfeed.programs.motion import read_motion_limits
        from crossfeed.scenarios.plan import Overrides

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


def forecast(
    model: Model,
    history: History,
    commands: Commands,
    session: Session = None,
    at: At = None,
    horizons: Annotated[str, typer.Option(help="Some of the trained rows ahead, with commas in between.")] = "",
    channels: Channels = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the rows as CSV or Parquet.")] = None,
    plot: Plot = None,
    compare: Annotated[list[str] | None, typer.Option(hidden=True, help="Belongs to what-if.")] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Forecast in one pass what the sensors will do next under one plan; `what-if` rolls whole plans forward.

    Example: crossfeed forecast run/ --history log.parquet --at 120 --commands table --plot next.png
    """
    with quick_start():
        from crossfeed.cli.render.printing import print_json
        from crossfeed.errors import ConfigError
        from crossfeed.front.fitted_model import load
        from crossfeed.show.figures import save_figure

    if compare:
        raise ConfigError("A forecast has one plan.", remedy="Compare plans with crossfeed what-if.")
    if any(not word.strip().isdigit() for word in horizons.split(",") if word):
        raise typer.BadParameter(f"'{horizons}' should look like 1,4,16", param_hint="--horizons")
    asked = [int(word) for word in horizons.split(",") if word]
    said = load(model, device).forecast(history, commands, asked or None, session=session, at=at)
    if out is not None:
        _write(said.to_polars(), out)
    if plot is not None:
        save_figure(said.plot([name.strip() for name in channels.split(",") if name.strip()]), plot)
    if json:
        print_json(said.to_polars().to_dicts())
    else:
        typer.echo(repr(said))


def _write(rows: "pl.DataFrame", out: Path) -> None:
    from crossfeed.errors import StorageError
    from crossfeed.files import atomic_file

    if out.suffix.lower() not in (".csv", ".parquet"):
        raise StorageError(f"Rows cannot be written as '{out.name}'.", expected="a name that ends in .csv or .parquet")
    with atomic_file(out) as temporary:
        if out.suffix.lower() == ".csv":
            rows.write_csv(temporary)
        else:
            rows.write_parquet(temporary)
