"""`crossfeed ingest`: raw logs become one canonical table with its manifest."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def ingest(
    log_format: Annotated[str, typer.Argument(help="thws, joanneum, michigan, mtconnect or table.")],
    path: Annotated[Path, typer.Argument(help="Log file, folder, glob or zip archive.")],
    out: Annotated[Path, typer.Argument(help="The Parquet file to write; the manifest goes beside it.")],
    rule: Annotated[
        Literal["crossfeed", "paper"], typer.Option(help="Commands: time-weighted mean of the bin, or last in the bin.")
    ] = "crossfeed",
    period: Annotated[float | None, typer.Option(help="Seconds between rows (default: as the kind says).")] = None,
    mapping: Annotated[
        Path | None, typer.Option(help="Describes the columns; for the kinds 'table' and 'mtconnect'.")
    ] = None,
    machine: Annotated[str | None, typer.Option(help="Name of the machine in the table.")] = None,
    std: Annotated[bool, typer.Option("--std", help="Keep each sensor's standard deviation inside the bin.")] = False,
    unpack_limit: Annotated[float, typer.Option(min=0.0, help="Gigabytes that an archive may become.")] = 4.0,
    json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Turn raw logs into one canonical table.

    Example: crossfeed ingest joanneum logs/joanneum target.parquet
    """
    from crossfeed.cli.render.grid import print_json
    from crossfeed.cli.render.logs import show_manifest
    from crossfeed.cli.render.notes import next_step
    from crossfeed.ingest.pipeline import ingest as run_ingest
    from crossfeed.machines.log_formats import log_format_named
    from crossfeed.progress import output

    if out.suffix.lower() != ".parquet":
        raise typer.BadParameter(f"{out} must end in .parquet", param_hint="OUT")
    table = run_ingest(
        log_format_named(log_format, mapping), path, rule=rule, period=period, deviation=std, machine=machine,
        unpack_limit=unpack_limit * 1e9,
    )  # fmt: skip
    table.write(out)
    if json:
        print_json(table.manifest)
        return
    console = output()
    show_manifest(table.manifest, console)
    console.print(f"wrote {out}", markup=False)
    next_step("audit", out)
