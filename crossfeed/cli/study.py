"""crossfeed study: the protocol, step by step."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

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

if TYPE_CHECKING:
    from crossfeed.study.record.score import LockedSeed
    from crossfeed.study.study import Study
    from crossfeed.study.verify import Weights

app = typer.Typer(
    name="study",
    help="The sealed study: candidates, source-only search, confirmation, lock, one opening of the target, ledger.",
    no_args_is_help=True,
)


def _opened(folder: Path) -> "Study":
    from crossfeed.study.study import Study

    return Study(folder)


@app.command()
def init(
    folder: Folder,
    source: SourceTables,
    target: Annotated[list[Path] | None, typer.Option(help="Target table (repeatable): moves into the vault.")] = None,
    protocol: Annotated[str, typer.Option(help="crossfeed, mended, paper or paper-v2.")] = "crossfeed",
    size: StudySize = "base",
    settings: Annotated[list[str] | None, typer.Option("--set", help="name=value for every candidate.")] = None,
    minimum_seeds: Annotated[int, typer.Option(min=1, help="Valid seeds the locked candidate must have.")] = 5,
    keep_targets: Annotated[
        bool, typer.Option("--keep-targets", help="Leave the target tables where they are, too.")
    ] = False,
    shared: SharedSensors = None,
) -> None:
    """Start a study and seal the target.

    Example: crossfeed study init mystudy --source source.parquet --target target.parquet --protocol crossfeed
    """
    from crossfeed.cli.render.results import show_next
    from crossfeed.configuration import parse_assignments
    from crossfeed.show.tables import plural
    from crossfeed.study.study import Study

    changes = parse_assignments(settings or [])
    study = Study.init(folder, source, target or [], protocol, size, changes, minimum_seeds, keep_targets, shared or [])
    alone = "on the source alone: there is nothing to open later"
    vault = study.store.folder / "vault"
    sealed = f"{plural(len(target), 'target table')} sealed in {vault}" if target else alone
    typer.echo(f"Study {folder} begun; {sealed}.")
    typer.echo(f"Ledger head: {study.verify().head}")
    show_next(study)


@app.command()
def search(
    folder: Folder,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds for every candidate.")] = 4,
    candidates: Annotated[Path | None, typer.Option(help="YAML file of your own candidates instead.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Some of the candidates, by name (repeatable).")] = None,
    planned: Annotated[bool, typer.Option("--planned", help="Add nothing; finish what is planned.")] = False,
    halving: Annotated[
        bool, typer.Option("--halving", help="Only the better half gets the next seed; kept in the ledger.")
    ] = False,
    engine: Engine = "local",
    jobs: Jobs = 1,
    address: Address = None,
    gpus_per_run: Gpus = 0.0,
) -> None:
    """Run every candidate with every seed; killed searches go on where they stopped.

    Example: crossfeed study search mystudy --seeds 4 --jobs 2
    """
    from crossfeed.cli.render.results import show_next, show_ranking
    from crossfeed.jobs import make_engine

    study, where = _opened(folder), make_engine(engine, jobs, address, gpus_per_run)
    chosen = study.candidates(only, candidates)
    if halving and not planned:
        study.halve(chosen, seeds, where)
    elif not planned:
        study.plan(chosen, seeds)
    study.search(where)
    show_ranking(study)
    show_next(study)


@app.command()
def confirm(
    folder: Folder,
    most_seeds: Annotated[int, typer.Option(min=2, help="Stop adding seeds here, stable or not.")] = 12,
    pass_over: Annotated[
        str | None, typer.Option(help="Take this leader out of the contest: no seed can make it lockable.")
    ] = None,
    engine: Engine = "local",
    jobs: Jobs = 1,
    address: Address = None,
    gpus_per_run: Gpus = 0.0,
) -> None:
    """Add seeds to the leaders until the leader is the same at two consecutive seed counts.

    Example: crossfeed study confirm mystudy --jobs 2
    """
    from crossfeed.cli.render.results import show_next, show_ranking
    from crossfeed.jobs import make_engine
    from crossfeed.show.tables import plural

    study = _opened(folder)
    found = study.confirm(make_engine(engine, jobs, address, gpus_per_run), most_seeds, pass_over)
    show_ranking(study)
    for seeds, name in found.leaders.items():
        typer.echo(f"{plural(seeds, 'seed')}: {name}")
    typer.echo("The leader stands." if found.stable else "The leader still changes: locking will be refused.")
    for reason in study.refusals() if found.stable else ():
        typer.echo(f"Cannot be locked now: {reason}.")
    show_next(study)


@app.command()
def lock(
    folder: Folder,
    seed: Annotated[str | None, typer.Option(help="median or best; without it as the protocol has it.")] = None,
) -> None:
    """Freeze the confirmed leader: configuration, code, normaliser, data and checkpoint by SHA-256.

    Example: crossfeed study lock mystudy
    """
    from crossfeed.cli.render.results import show_next

    study = _opened(folder)
    content = study.lock(cast("LockedSeed | None", seed))
    typer.echo(f"Locked {content['candidate']}, seed {content['seed']} (the {content['seed_rule']} one).")
    for name in ("config", "code", "normaliser", "checkpoint"):
        typer.echo(f"  {name:<11}{content[f'{name}_sha256']}")
    show_next(study)


@app.command()
def declare(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="A name for the ablation.")],
    arm: Annotated[list[str], typer.Option(help="name:setting=value,... (repeatable); the first is the control.")],
    seeds: Annotated[int, typer.Option(min=1, help="Paired seeds.")] = 3,
) -> None:
    """Declare an ablation before it runs; it may open the target if every arm lowers all RMSE components at home.

    Example: crossfeed study declare mystudy revin --arm control: --arm revin:model.instance_norm.kind=pure
    """
    from crossfeed.configuration import parse_assignments

    arms = {}
    for text in arm:
        label, _, changes = text.partition(":")
        arms[label] = parse_assignments([part for part in changes.split(",") if part])
    declared = _opened(folder).declare(name, arms, seeds)
    typer.echo(f"Declared '{declared.name}'. Now: crossfeed study search {folder} --planned")


@app.command()
def unseal(
    folder: Folder,
    declared: Annotated[str | None, typer.Option(help="Open for this declared ablation.")] = None,
    json: Json = False,
) -> None:
    """Verify the lock, write the opening to the ledger, then evaluate on the target: once.

    Example: crossfeed study unseal mystudy
    """
    from crossfeed.cli.render.printing import print_result
    from crossfeed.cli.render.results import show_next, show_target_result

    study = _opened(folder)
    result = study.unseal(declared)
    print_result(result, json, lambda: show_target_result(result))
    show_next(study)


@app.command()
def release(
    folder: Folder, out: Annotated[Path, typer.Argument(help="A folder for the target tables, as Parquet.")]
) -> None:
    """Hand the target tables back after the confirmatory result; from then on nothing more can be declared.

    Example: crossfeed study release mystudy released
    """

    for path in _opened(folder).release(out):
        typer.echo(f"Wrote {path}.")


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="The study folder, or an exported archive.")], json: Json = False
) -> None:
    """Recompute everything; exit 1 if a byte of ledger, lock, runs or data changed.

    Example: crossfeed study verify mystudy
    """
    from crossfeed.cli.render.printing import print_result
    from crossfeed.cli.render.results import show_verification
    from crossfeed.study.verify import verify_anything

    found = verify_anything(folder)
    print_result(found, json, lambda: show_verification(found))
    if found.problems:
        raise typer.Exit(1)


@app.command()
def export(
    folder: Folder,
    archive: Annotated[Path, typer.Argument(help="The .tar.gz to write.")],
    weights: Annotated[str, typer.Option(help="Whose weights go in: all, locked or none.")] = "all",
) -> None:
    """One archive that others can verify without the data; without most weights it is small.

    Example: crossfeed study export mystudy study.tar.gz --weights locked
    """
    from crossfeed.study.record.store import Store
    from crossfeed.study.verify import export

    typer.echo(f"Wrote {export(Store(folder), archive, cast('Weights', weights))}.")


@app.command()
def status(folder: Folder, json: Json = False) -> None:
    """Where the study stands, what may be done next, and the head of its ledger.

    Example: crossfeed study status mystudy
    """
    from crossfeed.cli.render.results import show_status

    show_status(_opened(folder), as_json=json)


@app.command(name="rank")
def rank_(folder: Folder, json: Json = False) -> None:
    """The ranking with both scores and all components.

    Example: crossfeed study rank mystudy --json
    """
    from crossfeed.cli.render.printing import print_result
    from crossfeed.cli.render.results import show_ranking

    study = _opened(folder)
    print_result(study.rank(), json, lambda: show_ranking(study))


@app.command()
def runs(folder: Folder, json: Json = False) -> None:
    """Every run with its status and components.

    Example: crossfeed study runs mystudy --json
    """
    from crossfeed.cli.render.printing import print_result
    from crossfeed.cli.render.results import show_runs

    found = _opened(folder).runs()
    print_result(found.to_dicts(), json, lambda: show_runs(found))


@app.command()
def show(folder: Folder, run: Annotated[str, typer.Argument(help="Name of a run, see crossfeed study runs.")]) -> None:
    """One run: its configuration and its outcome as JSON.

    Example: crossfeed study show mystudy preset-0
    """
    from crossfeed.cli.render.printing import print_json

    print_json(_opened(folder).store.run(run))


@app.command()
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


@app.command()
def contrast(
    folder: Folder,
    metric: Annotated[str, typer.Option(help="clean, schema_drop, masked, ..., command_ratio or rank.")] = "clean",
    json: Json = False,
) -> None:
    """Every arm of ready studies and declared ablations against its reference, paired by seed.

    Example: crossfeed study contrast mystudy --metric schema_drop
    """
    from crossfeed.cli.render.results import show_arms

    show_arms(_opened(folder), metric, json)


@app.command()
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
