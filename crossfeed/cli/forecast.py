"""`crossfeed forecast`: what the sensors will do next, at the horizons the model was trained for."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossfeed.cli.options import At, Channels, Commands, Device, History, Json, Model, Plot, Session
from crossfeed.cli.start import quick_start

if TYPE_CHECKING:
    import polars as pl


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
    from crossfeed.atomic import atomic_file
    from crossfeed.errors import StorageError

    if out.suffix.lower() not in (".csv", ".parquet"):
        raise StorageError(f"Rows cannot be written as '{out.name}'.", expected="a name that ends in .csv or .parquet")
    with atomic_file(out) as temporary:
        if out.suffix.lower() == ".csv":
            rows.write_csv(temporary)
        else:
            rows.write_parquet(temporary)
