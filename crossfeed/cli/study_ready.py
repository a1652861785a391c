"""crossfeed study ready and contrast: ablations that stand ready, and their paired statistics."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.options import Address, Engine, Folder, Gpus, Jobs, Json, SharedSensors, SourceTables, StudySize


def ready(
    kind: Annotated[str, typer.Argument(help="ablations, initialisation, channel-drop, no-latent or leave-one-out.")],
    folder: Folder,
    source: SourceTables,
    target: Annotated[list[Path] | None, typer.Option(help="Target table: sealed, only its schema is used.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of every arm; more seeds later extend the study.")] = 5,
    protocol: Annotated[str, typer.Option(help="paper or crossfeed.")] = "crossfeed",
    size: StudySize = "base",
    settings: Annotated[list[str] | None, typer.Option("--set", help="name=value for every arm.")] = None,
    shared: SharedSensors = None,
    only: Annotated[list[str] | None, typer.Option(help="Some of the arms, by name (repeatable).")] = None,
    engine: Engine = "local",
    jobs: Jobs = 1,
    address: Address = None,
    gpus_per_run: Gpus = 0.0,
) -> None:
    """Run a ready study: single factors against a reference, on source data; the same command goes on after a stop.

    Example: crossfeed study ready initialisation mystudy --source source.parquet --seeds 5
    """
    from crossfeed.cli.render.results import show_arms
    from crossfeed.configuration import parse_assignments
    from crossfeed.study.engines import make_engine
    from crossfeed.study.study import Study

    where = make_engine(engine, jobs, address, gpus_per_run)
    changes = parse_assignments(settings or [])
    study = Study.open_or_init(folder, source, target or [], protocol, size, changes, shared=shared or [])
    study.ready(kind, seeds, only or [])
    study.search(where)
    show_arms(study)


def contrast(
    folder: Folder,
    metric: Annotated[str, typer.Option(help="clean, schema_drop, masked, ..., command_ratio or rank.")] = "clean",
    json: Json = False,
) -> None:
    """Every arm of ready studies and declared ablations against its reference, paired by seed.

    Example: crossfeed study contrast mystudy --metric schema_drop
    """
    from crossfeed.cli.render.results import show_arms
    from crossfeed.study.study import Study

    show_arms(Study(folder), metric, json)
