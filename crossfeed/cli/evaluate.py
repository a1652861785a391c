"""`crossfeed evaluate`: how good a model is on a table."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.options import Device, Json, Model
from crossfeed.cli.start import quick_start


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

    found = judge_on_table(
        model, table, source or (), part=part, suite=suite, unit=unit, machine=machine, new_sensors=new_sensors,
        out=out, device=device,
    )  # fmt: skip

    def show() -> None:
        show_evaluation(found)
        if found.models and found.part == "all" and found.verdict(found.models[0]).light != "good":
            next_step("adapt", model, "--table", table, "--out", "adapted")

    print_result(found, json, show)
    if not found.models:
        raise typer.Exit(1)
