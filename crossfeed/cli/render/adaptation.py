"""An adaptation on a terminal: few-shot and online beside zero-shot."""

from typing import Any

from rich.console import Console

from crossfeed.cli.render.grid import estimate, grid, number
from crossfeed.cli.render.notes import absent_commands
from crossfeed.evaluation.statistics import Interval
from crossfeed.progress import output

METRICS = {"rmse": "RMSE", "mae": "MAE", "r2": "R2", "crps": "CRPS", "nll": "NLL", "coverage90": "cover 90 %"}
RATIO = "RMSE / zero-shot, 95 % over runs"


def show_adaptation(content: dict[str, Any]) -> None:
    """Print what was gained, and where the adapted models lie."""
    console = output()
    if "few_shot" in content:
        _few_shot(console, content["few_shot"])
    if "online" in content:
        _online(console, content["online"], content["windows"])
    absent_commands(console, content.get("absent_commands", {}))
    for path in content["models"]:
        console.print(f"model: {path}", markup=False, soft_wrap=True, highlight=False)
    if not content["models"]:
        console.print("No model was kept: give --out FOLDER to keep what was learned.", highlight=False)


def _few_shot(console: Console, content: dict[str, Any]) -> None:
    title = f"Few-shot ({content['config']['mode']}): common query of {content['query_windows']} windows"
    table = grid(title, ["support", "windows", *METRICS.values(), RATIO], words=0)
    for row in content["fractions"]:
        values = (number(row[name]) for name in METRICS)
        ratio = estimate(Interval(**row["rmse_ratio"]))
        table.add_row(f"{row['fraction']:.0%}", str(row["support_windows"]), *values, ratio)
    console.print(table)
    for row in content["fractions"]:
        lacking = f"no support from {', '.join(row['runs_without_support'])}" if row["runs_without_support"] else ""
        if row["remark"] or lacking:
            console.print(f"{row['fraction']:.0%}: {row['remark'] or lacking}", highlight=False)
    if content["runs_without_query"]:
        console.print(f"No query windows in {', '.join(content['runs_without_query'])}", highlight=False)


def _online(console: Console, content: dict[str, Any], windows: int) -> None:
    title = f"Online ({content['config']['mode']}), prequential: {windows} windows, {content['updates']} updates"
    table = grid(title, ["", *METRICS.values(), RATIO])
    table.add_row("zero-shot", *(number(content["zero_shot"][name]) for name in METRICS), "")
    ratio = estimate(Interval(**content["rmse_ratio"]))
    table.add_row("online", *(number(content["online"][name]) for name in METRICS), ratio)
    console.print(table)
    tracked = ", ".join(f"{float(level):.0%}: {share:.3f}" for level, share in content["tracked_coverage"].items())
    console.print(f"Coverage of intervals tracked while running: {tracked}", highlight=False)
