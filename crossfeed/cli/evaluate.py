"""`crossfeed evaluate`, `compare`, `curve` and `report`: how good models are, and what was found as one page."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.common import Device, Json, Model, Processes, ResultsFolder, SplitBy, TrainingSeeds, quick_start


def evaluate(
    model: Model,
    table: Annotated[Path, typer.Option("--table", "-t", help="The table to forecast.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for evaluation.json.")] = None,
    source: Annotated[
        list[Path] | None,
        typer.Option(help="A table the model was trained on (repeatable); gives the floors their spread."),
    ] = None,
    part: Annotated[
        Literal["auto", "train", "validation", "test", "all"],
        typer.Option(help="Side of a table the model was trained on; auto: its test side, all of any other table."),
    ] = "auto",
    suite: Annotated[
        Literal["standard", "full"], typer.Option(help="full adds robustness, channel curves and conformal layers.")
    ] = "standard",
    unit: Annotated[
        Literal["run", "session", "program"] | None, typer.Option(help="What counts as independent in intervals.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option(help="Roll changed plans out on this simulated machine: spinner_620, spinner_630.")
    ] = None,
    new_sensors: Annotated[
        bool,
        typer.Option("--new-sensors", help="Judge sensors that the model never met too (if begun with fleet)."),
    ] = False,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """May a model be trusted on a machine, and on which channels? Its errors, intervals and use of commands, measured.

    Example: crossfeed evaluate run/ --table target.parquet --source source.parquet --suite full --out results/
    """
    with quick_start():
        from crossfeed.cli.render.printing import next_step, print_result
        from crossfeed.cli.render.results import show_evaluation
        from crossfeed.evaluation.judge import evaluate as judge_on_table

    changed_plans = None
    if machine is not None:
        from crossfeed.sim.counterfactual import on_simulated_machine

        changed_plans = partial(on_simulated_machine, machine=machine)
    found = judge_on_table(
        model, table, source or (), part=part, suite=suite, unit=unit, changed_plans=changed_plans,
        new_sensors=new_sensors, out=out, device=device,
    )  # fmt: skip

    def show() -> None:
        show_evaluation(found)
        if found.models and found.part == "all" and found.verdict(found.models[0]).light != "good":
            next_step("adapt", model, "--table", table, "--out", "adapted")

    print_result(found, json, show)
    if not found.models:
        raise typer.Exit(1)


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
    from crossfeed.cli.render.printing import print_result
    from crossfeed.cli.render.results import show_comparison
    from crossfeed.evaluation.baselines.budget import budget_of
    from crossfeed.evaluation.baselines.compare import compare as run
    from crossfeed.evaluation.baselines.contenders import config_of
    from crossfeed.logs.table import Table

    comparison = run(
        [Table.read(path) for path in source], Table.read(target) if target else None, out,
        models=models, seeds=seeds, budget=budget_of(budget, epochs, steps), size=size,
        repositories=repo or (), config=config_of(size, split_by, stride), device=device, jobs=jobs,
    )  # fmt: skip
    print_result(comparison.table, json, lambda: show_comparison(comparison.table, comparison.folder))


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
    from crossfeed.evaluation.bench.curve import curve as draw

    found = draw(
        table, models, minutes, out=out, size=size, budget=budget, seeds=seeds, jobs=jobs, fleet=fleet,
        split_by=split_by, windows=windows, device=device,
    )  # fmt: skip
    print_result(found, json, lambda: show_curve(found, out))


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a study or of a training run; it may be half done.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the report; default: PLACE/report.")
    ] = None,
    comparison: Annotated[Path | None, typer.Option(help="Folder written by crossfeed compare.")] = None,
    evaluation: Annotated[Path | None, typer.Option(help="Folder written by crossfeed evaluate, or one above.")] = None,
    adaptation: Annotated[Path | None, typer.Option(help="Folder written by crossfeed adapt.")] = None,
    forecast: Annotated[Path | None, typer.Option(help="Folder written by crossfeed what-if.")] = None,
    curve: Annotated[Path | None, typer.Option(help="Folder written by crossfeed curve.")] = None,
    audit: Annotated[list[Path] | None, typer.Option(help="Output of crossfeed audit --json (repeatable).")] = None,
    json: Json = False,
) -> None:
    """Write report.html (one file, no network), tables/ (CSV, LaTeX) and figures/ (PNG).

    Folders named comparison, evaluation, adaptation, forecast, curve and a file audit.json are found beside PLACE, a
    curve also in it, and so are evaluations, adaptations and forecasts of a run's model in folders of any other name.

    Example: crossfeed report mystudy --comparison comparison --audit audit.json
    """
    with quick_start():
        from crossfeed.cli.render.printing import print_json
        from crossfeed.front.report.artefacts import gather
        from crossfeed.front.report.report import write_report
        from crossfeed.show.tables import plural

    found = gather(
        folder, comparison=comparison, evaluation=evaluation, adaptation=adaptation, forecast=forecast, curve=curve,
        audits=audit or (),
    )  # fmt: skip
    written = write_report(found, out)
    if json:
        print_json(written)
        return
    typer.echo(f"{written.answer}")
    held = f"{plural(len(written.tables) // 2, 'table')}, {plural(len(written.figures), 'figure')}"
    typer.echo(f"{written.report} ({held})")
