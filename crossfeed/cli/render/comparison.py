"""Comparisons and learning curves on a terminal, narrow enough for 80 columns."""

from pathlib import Path

from crossfeed.baselines.results import ComparisonTable, grid, remarks
from crossfeed.cli.render.grid import print_grid
from crossfeed.grid import Grid
from crossfeed.learning_curve.result import LearningCurve, grids
from crossfeed.progress import output


def show_comparison(table: ComparisonTable, folder: Path) -> None:
    """Print one table for each set of windows, what has to be said beside it, and where everything was saved."""
    for name in table.sets:
        print_grid(grid(table, name, brief=True))
    print_grid(Grid("", (), [], remarks(table)))
    output().print(f"Saved in {folder}: table.csv, table.json, table.md and one file for each run", markup=False)


def show_curve(curve: LearningCurve, folder: Path) -> None:
    """Print errors by minutes, then who overtakes the fleet, and where everything lies."""
    for found in grids(curve, ("crps", "rmse", "coverage90")):
        print_grid(found)
    output().print(f"Saved in {folder}: curve.json, curve.csv, curve.md, curve.png, curve.svg", markup=False)
