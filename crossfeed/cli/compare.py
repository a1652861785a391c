"""`crossfeed compare`: every competitor on the same windows, one table."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.options import Device, Json, Processes, ResultsFolder, SplitBy, TrainingSeeds


def compare(
    source: Annotated[
        list[Path], typer.Option("--source", "--table", "-t", help="Table to learn from; repeat for several machines.")
    ],
    out: ResultsFolder,
    target: Annotated[Path | None, typer.Option(help="Table of a machine that nobody learns from.")] = None,
    models: Annotated[str, typer.Option(help="all, short, or names such as gru,trees,patchtst+blind.")] = "short",
    seeds: TrainingSeeds = 3,
    size: Annotated[Literal["tiny", "compact", "base"], typer.Option(help="base: widths of the paper.")] = "tiny",
    budget: Annotated[Literal["smoke", "demo", "paper"], typer.Option(help="Epochs and steps for all.")] = "demo",
    epochs: Annotated[int | None, typer.Option(help="Another number of epochs than the budget's.")] = None,
    steps: Annotated[int | None, typer.Option(help="Another number of batches per epoch.")] = None,
    split_by: SplitBy = "session",
    stride: Annotated[int, typer.Option(help="Take every n-th window, to learn from and to be scored on.")] = 1,
    jobs: Processes = 1,
    repo: Annotated[list[Path] | None, typer.Option(help="Clone of official PatchTST, iTransformer, SimMTM.")] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Train the world model and its competitors on the same windows, score them alike, print one table.

    Example: crossfeed compare --source source.parquet --target target.parquet --models short --out comparison
    """
    from crossfeed.baselines.budget import budget_of
    from crossfeed.baselines.compare import compare as run
    from crossfeed.baselines.contenders import config_of
    from crossfeed.cli.render.printing import print_result
    from crossfeed.cli.render.results import show_comparison
    from crossfeed.ingest.table import Table

    comparison = run(
        [Table.read(path) for path in source], Table.read(target) if target else None, out,
        models=models, seeds=seeds, budget=budget_of(budget, epochs, steps), size=size,
        repositories=repo or (), config=config_of(size, split_by, stride), device=device, jobs=jobs,
    )  # fmt: skip
    print_result(comparison.table, json, lambda: show_comparison(comparison.table, comparison.folder))
