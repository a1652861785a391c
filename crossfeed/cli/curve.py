"""`crossfeed curve`: how good each model is after so many minutes of own logs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.options import Device, Json, Processes, ResultsFolder, SplitBy, TrainingSeeds


def curve(
    table: Annotated[Path, typer.Option("--table", "-t", help="The table of one machine.")],
    out: ResultsFolder,
    models: Annotated[
        str, typer.Option(help="fleet, and any model of crossfeed compare, separated by commas.")
    ] = "fleet,crossfeed,tide,trees,persistence",
    minutes: Annotated[str, typer.Option(help="Minutes of own logs to learn from.")] = "0,1,3,10,30,60,all",
    size: Annotated[Literal["tiny", "compact", "base"], typer.Option(help="Of models trained here.")] = "compact",
    budget: Annotated[
        Literal["quick", "normal", "thorough"], typer.Option(help="How long each of them learns, as in train.")
    ] = "quick",
    seeds: TrainingSeeds = 1,
    jobs: Processes = 1,
    fleet: Annotated[str, typer.Option(help="Another model of many machines than the one that is shipped.")] = "fleet",
    split_by: SplitBy = "session",
    windows: Annotated[int, typer.Option(help="Judge by at most so many windows, evenly spread.")] = 4000,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw the error of every model against minutes of own logs, and say who overtakes the fleet when.

    Example: crossfeed curve --table own.parquet --models fleet,crossfeed,tide,persistence --out curve
    """
    from crossfeed.cli.render.printing import print_result
    from crossfeed.cli.render.results import show_curve
    from crossfeed.learning_curve.curve import curve as draw

    found = draw(
        table, models, minutes, out=out, size=size, budget=budget, seeds=seeds, jobs=jobs, fleet=fleet,
        split_by=split_by, windows=windows, device=device,
    )  # fmt: skip
    print_result(found, json, lambda: show_curve(found, out))
