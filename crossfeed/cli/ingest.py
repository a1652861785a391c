"""`crossfeed ingest`: raw logs become one canonical table with its manifest."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.options import Json, MachineName, TableFile


def ingest(
    log_format: Annotated[str, typer.Argument(help="thws, joanneum, michigan, mtconnect or table.")],
    path: Annotated[Path, typer.Argument(help="Log file, folder, glob or zip archive.")],
    out: TableFile,
    rule: Annotated[
        Literal["crossfeed", "paper"], typer.Option(help="Causal bins, or the bins and filled gaps of the paper.")
    ] = "crossfeed",
    period: Annotated[float | None, typer.Option(help="Seconds between rows (default: as the kind says).")] = None,
    mapping: Annotated[
        Path | None, typer.Option(help="Describes the columns; for the kinds 'table' and 'mtconnect'.")
    ] = None,
    machine: MachineName = None,
    std: Annotated[bool, typer.Option("--std", help="Keep each sensor's standard deviation inside the bin.")] = False,
    unpack_limit: Annotated[float, typer.Option(min=0.0, help="Gigabytes that an archive may become.")] = 4.0,
    json: Json = False,
) -> None:
    """Turn raw logs into one canonical table.

    Example: crossfeed ingest joanneum logs/joanneum target.parquet
    """
    from crossfeed.cli.render.inputs import show_manifest
    from crossfeed.cli.render.printing import next_step, print_result
    from crossfeed.ingest.pipeline import ingest as run_ingest
    from crossfeed.machines.log_formats import log_format_named

    table = run_ingest(
        log_format_named(log_format, mapping), path, rule=rule, period=period, deviation=std, machine=machine,
        unpack_limit=unpack_limit * 1e9,
    )  # fmt: skip
    table.write(out)

    def show() -> None:
        show_manifest(table.manifest, out)
        next_step("audit", out)

    print_result(table.manifest, json, show)
