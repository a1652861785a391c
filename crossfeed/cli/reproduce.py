"""`crossfeed reproduce`: the same seed, the same bits."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.options import Json


def reproduce(
    run: Annotated[Path, typer.Argument(help="The folder of a finished training run.")],
    table: Annotated[list[Path], typer.Option("--table", "-t", help="Its tables, in their order.")],
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; those of the run if left out. Others can change the last bits.")
    ] = None,
    pretrained: Annotated[Path | None, typer.Option(help="The file its body came from, where it had one.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Keep the second run here.")] = None,
    json: Json = False,
) -> None:
    """Train a finished run again from its own configuration and compare every bit; exit code 1 if one differs.

    Example: crossfeed reproduce run/ --table source.parquet
    """
    from crossfeed.cli.render.printing import print_json
    from crossfeed.ingest.table import Table
    from crossfeed.training.reproduce import reproduce as run_again

    found = run_again(run, [Table.read(path) for path in table], threads=threads, pretrained=pretrained, out=out)
    if json:
        print_json(found)
    else:
        typer.echo(found.verdict)
        for line in found.differences:
            typer.echo(f"  {line}")
    raise typer.Exit(0 if found.same else 1)
