"""A comparison on a terminal: one table for each set of windows, narrow enough for 80 columns."""

from pathlib import Path

from crossfeed.baselines.table import TITLES, ComparisonTable, cells, remarks
from crossfeed.cli.render.grid import print_table
from crossfeed.progress import output


def show_comparison(table: ComparisonTable, folder: Path) -> None:
    """Print the best of each column in bold, what has to be said beside it, and where everything was saved."""
    console = output()
    for name in table.sets:
        header, *body = ([line[0], *line[2:]] for line in cells(table, name, bold=("[bold]", "[/]"), spreads=False))
        print_table(TITLES[name], header, body)
    for remark in remarks(table):
        console.print(f"- {remark}", markup=False)
    console.print(f"Saved in {folder}: table.csv, table.json, table.md and one file for each run", markup=False)
