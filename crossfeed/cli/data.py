"""`crossfeed data`: the public data sets, their licences, and how to describe logs of one's own."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.options import Json

app = typer.Typer(name="data", help="Public data sets and the description of your own logs.", no_args_is_help=True)


@app.command("list")
def list_log_formats(json: Json = False) -> None:
    """List the kinds of log that crossfeed knows.

    Example: crossfeed data list
    """
    from crossfeed.cli.render.inputs import show_log_formats
    from crossfeed.cli.render.printing import print_result
    from crossfeed.machines.log_formats import log_formats as known_log_formats

    log_formats = list(known_log_formats().values())
    facts = [{"kind": log.name, "title": log.title, "licence": log.licence} for log in log_formats]
    print_result(facts, json, lambda: show_log_formats(log_formats))


@app.command()
def show(
    what: Annotated[str, typer.Argument(help="A kind of log, or a table made by `crossfeed ingest`.")],
    json: Json = False,
) -> None:
    """Show a kind's columns, units, rules and licence, or a table's manifest.

    Example: crossfeed data show joanneum
    """
    from crossfeed.cli.render.inputs import show_log_format, show_table
    from crossfeed.cli.render.printing import print_json
    from crossfeed.ingest.table import Table
    from crossfeed.machines.log_formats import log_format_named

    if json:
        print_json(Table.read(what).manifest)
    elif Path(what).suffix == ".parquet":
        show_table(Path(what))
    else:
        show_log_format(log_format_named(what))


@app.command()
def divide(
    table: Annotated[Path, typer.Argument(help="A table made by `crossfeed ingest`.")],
    first: Annotated[Path, typer.Argument(help="Table to write: the runs to learn from.")],
    second: Annotated[Path, typer.Argument(help="Table to write: the other runs.")],
    runs: Annotated[str, typer.Option(help="Runs for the second table, with commas.")] = "",
    last: Annotated[int | None, typer.Option(help="Or the last so many runs.")] = None,
    every: Annotated[int | None, typer.Option(help="Or every n-th run.")] = None,
    hide: Annotated[str, typer.Option(help="Sensors that the second table lacks, with commas.")] = "",
    machine: Annotated[str, typer.Option(help="Name of the machine in the second table.")] = "",
) -> None:
    """Divide the runs of a machine in two tables; the second can lack sensors, as another machine would.

    Example: crossfeed data divide mill.parquet source.parquet target.parquet --last 6 --hide z_load --machine mill_b
    """
    from crossfeed.ingest.align import choose_runs
    from crossfeed.ingest.align import divide as divide_runs
    from crossfeed.ingest.table import Table

    whole = Table.read(table)
    chosen = choose_runs(whole, [name for name in runs.split(",") if name], last, every)
    for path, part in zip(
        (first, second), divide_runs(whole, chosen, [name for name in hide.split(",") if name], machine), strict=True
    ):
        part.write(path)
        typer.echo(f"{path}: {len({group.run for group in part.groups})} runs, {len(part):,} rows")


@app.command()
def template(
    source: Annotated[
        Path | None, typer.Option("--from", help="A log, a folder of logs or a Devices.xml to write the mapping from.")
    ] = None,
) -> None:
    """Print a commented mapping to adapt to your own logs, or one written from a log, with a ? at every guess.

    Example: crossfeed data template --from logs/a > mapping.yaml
    """
    from crossfeed.machines.mapping import TEMPLATE

    if source is None:
        typer.echo(TEMPLATE, nl=False)
        return
    from crossfeed.machines.template import template_from

    typer.echo(template_from(source), nl=False)


@app.command()
def fetch(
    log_format: Annotated[str, typer.Argument(help="thws, joanneum or michigan.")],
    to: Annotated[Path, typer.Option("--to", "--out", "-o", help="Folder to download to.")],
    accept_licence: Annotated[
        bool, typer.Option("--accept-licence", help="Do not ask whether the licence is accepted.")
    ] = False,
    base_url: Annotated[str | None, typer.Option(help="Fetch from a mirror instead of the publisher.")] = None,
) -> None:
    """Download a public data set; an interrupted download goes on where it stopped.

    Example: crossfeed data fetch thws --to logs/thws --accept-licence
    """
    from rich.console import Console

    from crossfeed.cli.render.inputs import show_licence
    from crossfeed.errors import ConfigError
    from crossfeed.machines.download import fetch as fetch_files
    from crossfeed.machines.log_formats import log_format_named

    found = log_format_named(log_format)
    show_licence(found, Console(highlight=False, stderr=True))  # also with --quiet: it is asked about
    if not accept_licence and not typer.confirm("Do you accept the licence?", default=False, err=True):
        raise ConfigError("The licence was not accepted; nothing was downloaded.", remedy="Add --accept-licence.")
    for path in fetch_files(found, to, base_url):
        typer.echo(path)
