"""`crossfeed windows`: how a table divides into train, validation and test, and how many windows each side has."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.options import Json


def windows(
    table: Annotated[Path, typer.Argument(help="A table made by `crossfeed ingest`.")],
    by: Annotated[
        Literal["session", "program", "run", "day", "none"],
        typer.Option(help="What stays on one side; none for no split."),
    ] = "session",
    seed: Annotated[int, typer.Option(help="Seed of the split; no other seed touches it.")] = 20260820,
    context: Annotated[int, typer.Option(help="Rows a window shows.")] = 32,
    horizons: Annotated[str, typer.Option(help="Rows ahead that are asked for.")] = "1,2,4,8,16",
    stride: Annotated[int, typer.Option(help="Rows between the ends of neighbouring windows.")] = 1,
    save_split: Annotated[Path | None, typer.Option(help="Write the split to this JSON file.")] = None,
    json: Json = False,
) -> None:
    """Show the split of a table and the windows of each side.

    Example: crossfeed windows source.parquet --by program --save-split split.json
    """
    from crossfeed.cli.render.inputs import show_counts
    from crossfeed.cli.render.printing import print_json
    from crossfeed.ingest.table import Table
    from crossfeed.windows.split import split_table
    from crossfeed.windows.split_tables import count_windows

    try:
        ahead = [int(part) for part in horizons.split(",")]
    except ValueError:
        raise typer.BadParameter("give whole numbers with commas, such as 1,2,4", param_hint="--horizons") from None
    read = Table.read(table)
    split = None if by == "none" else split_table(read, by, seed)
    counts = count_windows(read, split, context, ahead, stride)
    if split is not None and save_split is not None:
        split.write(save_split)
    if json:
        sides = split.model_dump(mode="json") if split else None
        print_json({"split": sides, "parts": [part.to_dict() for part in counts]})
    else:
        show_counts(counts, split)
    for part in counts:
        part.windows.require_any()
