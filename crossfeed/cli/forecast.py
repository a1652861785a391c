"""`crossfeed forecast`: what the sensors will do next, at the horizons the model was trained for."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.start import quick_start


def forecast(
    model: Annotated[Path, typer.Argument(help="A model file, the folder of a run, or fleet: the shipped one.")],
    history: Annotated[Path, typer.Option(help="Table with the rows before the forecast.")],
    commands: Annotated[
        str, typer.Option("--commands", "-c", help="CSV, Parquet, NC program, or 'table': what really followed.")
    ],
    session: Annotated[str | None, typer.Option(help="Session of the history; the last one if left out.")] = None,
    at: Annotated[
        float | None, typer.Option(help="Seconds after the session's first row; its end if left out.")
    ] = None,
    horizons: Annotated[str, typer.Option(help="Some of the trained rows ahead, with commas in between.")] = "",
    channels: Annotated[str, typer.Option(help="Sensors in the figure, with commas in between.")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the rows as CSV or Parquet.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the figure as PNG, SVG or PDF.")] = None,
    compare: Annotated[list[str] | None, typer.Option(hidden=True, help="Belongs to what-if.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:<number>.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Forecast in one pass what the sensors will do next under one plan; `what-if` rolls whole plans forward.

    Example: crossfeed forecast run/ --history log.parquet --at 120 --commands table --plot next.png
    """
    with quick_start():
        from crossfeed.cli.render.grid import print_json
        from crossfeed.errors import ConfigError
        from crossfeed.front.fitted_model import load
        from crossfeed.front.rows_file import write_rows
        from crossfeed.plots import save_figure

    if compare:
        raise ConfigError("A forecast has one plan.", remedy="Compare plans with crossfeed what-if.")
    if any(not word.strip().isdigit() for word in horizons.split(",") if word):
        raise typer.BadParameter(f"'{horizons}' should look like 1,4,16", param_hint="--horizons")
    asked = [int(word) for word in horizons.split(",") if word]
    said = load(model, device).forecast(history, commands, asked or None, session=session, at=at)
    if out is not None:
        write_rows(said.to_polars(), out)
    if plot is not None:
        save_figure(said.plot([name.strip() for name in channels.split(",") if name.strip()]), plot)
    if json:
        print_json(said.to_polars().to_dicts())
    else:
        typer.echo(repr(said))
