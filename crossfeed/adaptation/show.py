"""An adaptation as tables on a terminal."""

from typing import Any

from rich.console import Console
from rich.table import Table

from crossfeed.evaluation.show import number
from crossfeed.progress import output

METRICS = {"rmse": "RMSE", "mae": "MAE", "r2": "R2", "crps": "CRPS", "nll": "NLL", "coverage90": "cover 90 %"}


def show(content: dict[str, Any]) -> None:
    """Print few-shot and online results beside zero-shot."""
    console = output()
    if "few_shot" in content:
        _few_shot(console, content["few_shot"])
    if "online" in content:
        _online(console, content["online"], content)
    for name, value in content.get("absent_commands", {}).items():
        console.print(f"[yellow]note:[/] the table has no {name}; it is taken as {value:g} throughout", highlight=False)
    for path in content["models"]:
        console.print(f"model: {path}", markup=False, soft_wrap=True, highlight=False)
    if not content["models"]:
        console.print("No model was kept: give --out FOLDER to keep what was learned.", highlight=False)


def _few_shot(console: Console, content: dict[str, Any]) -> None:
    table = Table(
        title=f"Few-shot ({content['config']['mode']}): common query of {content['query_windows']} windows",
        title_justify="left",
    )
    for column in ("support", "windows", *METRICS.values(), "RMSE / zero-shot, 95 % over runs"):
        table.add_column(column, justify="right")
    for row in content["fractions"]:
        values = (number(row[name]) for name in METRICS)
        table.add_row(f"{row['fraction']:.0%}", str(row["support_windows"]), *values, _ratio(row["rmse_ratio"]))
    console.print(table)
    for row in content["fractions"]:
        if row["remark"]:
            console.print(f"{row['fraction']:.0%}: {row['remark']}", highlight=False)
        elif row["runs_without_support"]:
            console.print(
                f"{row['fraction']:.0%}: no support from {', '.join(row['runs_without_support'])}", highlight=False
            )
    if content["runs_without_query"]:
        console.print(f"No query windows in {', '.join(content['runs_without_query'])}", highlight=False)


def _online(console: Console, content: dict[str, Any], whole: dict[str, Any]) -> None:
    table = Table(
        title=f"Online ({content['config']['mode']}), prequential: {whole['windows']} windows, "
        f"{content['updates']} updates",
        title_justify="left",
    )
    table.add_column("")
    for column in (*METRICS.values(), "RMSE / zero-shot, 95 % over runs"):
        table.add_column(column, justify="right")
    table.add_row("zero-shot", *(number(content["zero_shot"][name]) for name in METRICS), "")
    table.add_row("online", *(number(content["online"][name]) for name in METRICS), _ratio(content["rmse_ratio"]))
    console.print(table)
    tracked = ", ".join(f"{float(level):.0%}: {share:.3f}" for level, share in content["tracked_coverage"].items())
    console.print(f"Coverage of intervals tracked while running: {tracked}", highlight=False)


def _ratio(ratio: dict[str, Any]) -> str:
    bounds = "" if ratio["low"] is None else f" ({ratio['low']:.3f} to {ratio['high']:.3f})"
    return f"{ratio['estimate']:.3f}{bounds}"
