"""crossfeed study ready, contrast and sensitivity: ablations that stand ready, their statistics, readings of logs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.common import (
    Address,
    Engine,
    Folder,
    Gpus,
    Jobs,
    Json,
    SharedSensors,
    SourceTables,
    StudySize,
    TrainingSeeds,
)


def ready(
    kind: Annotated[str, typer.Argument(help="ablations, initialisation, channel-drop, no-latent or leave-one-out.")],
    folder: Folder,
    source: SourceTables,
    target: Annotated[list[Path] | None, typer.Option(help="Target table: sealed, only its schema is used.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of every arm; more seeds later extend the study.")] = 5,
    protocol: Annotated[str, typer.Option(help="crossfeed, mended, paper or paper-v2.")] = "crossfeed",
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
    from crossfeed.jobs import make_engine
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


def sensitivity(
    folder: Folder,
    thws: Annotated[Path, typer.Option(help="Native THWS logs: the source.")],
    joanneum: Annotated[Path, typer.Option(help="Native JOANNEUM logs: the target, which is read and scored.")],
    rule: Annotated[Literal["paper", "crossfeed"], typer.Option(help="Rule of ingest of the reference.")] = "paper",
    models: Annotated[str, typer.Option(help="As in crossfeed compare; persistence is added.")] = "ridge,crossfeed",
    seeds: TrainingSeeds = 3,
    budget: Annotated[Literal["smoke", "demo", "paper"], typer.Option(help="As in crossfeed compare.")] = "demo",
    size: Annotated[Literal["tiny", "compact", "base"], typer.Option(help="base: widths of the paper.")] = "tiny",
    stride: Annotated[int, typer.Option(help="Take every n-th window.")] = 1,
    json: Json = False,
) -> None:
    """How results depend on the rule and length of bins and on the 2 ms cycle; never for a target that is still sealed.

    Example: crossfeed study sensitivity readings --thws logs/thws --joanneum logs/joanneum
    """
    from dataclasses import asdict

    from crossfeed.cli.render.printing import print_result, say
    from crossfeed.cli.render.printing import show as show_tables
    from crossfeed.evaluation.baselines.budget import named_budget
    from crossfeed.study.sensitivity import sensitivity as run

    found = run(
        thws, joanneum, folder, rule=rule, models=models, seeds=seeds, budget=named_budget(budget), size=size,
        stride=stride,
    )  # fmt: skip

    def show() -> None:
        show_tables(*found.tables())
        files = ", ".join(f"sensitivity{end}" for end in (".json", "-source.md", "-target.md", ".png"))
        say(f"Saved in {folder}: {files}")

    print_result([asdict(line) for line in found.lines], json, show)
