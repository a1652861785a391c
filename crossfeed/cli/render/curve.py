"""A learning curve on a terminal: one column for each number of minutes."""

from pathlib import Path

from crossfeed.cli.render.grid import print_table
from crossfeed.learning_curve.files import cells, remarks
from crossfeed.learning_curve.result import METRICS, LearningCurve
from crossfeed.progress import output

_SHOWN = ("crps", "rmse", "coverage90")


def show_curve(curve: LearningCurve, folder: Path) -> None:
    """Print errors with the best of each column in bold, then who overtakes the fleet, and where everything lies."""
    console = output()
    for metric in _SHOWN:
        rows = cells(curve, metric, ("[bold]", "[/]"))
        print_table(f"{METRICS[metric]} after so many minutes of own logs", ("", *curve.labels), rows)
    for remark in remarks(curve):
        console.print(f"- {remark}", markup=False)
    console.print(f"Saved in {folder}: curve.json, curve.csv, curve.md, curve.png, curve.svg", markup=False)
