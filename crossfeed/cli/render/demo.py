"""The last page of the demo on a terminal."""

from typing import Any

from crossfeed.cli.render.grid import grid, number
from crossfeed.demo.headline import METRICS, sentences
from crossfeed.progress import output


def show_headline(content: dict[str, Any], simulated: bool) -> None:
    """Print one table, best value of each column in bold, and what it does not say."""
    console, rows = output(), content["rows"]
    where = f"{content['windows']:,} windows of {content['runs']} runs" if content["locked"] else "source, test side"
    table = grid(f"Judged on the {content['judged_on']}: {where}", ["", *METRICS.values()])
    errors = [metric for metric in METRICS if metric != "coverage90"]
    lowest = {m: min((row[m] for row in rows.values() if row[m] is not None), default=None) for m in errors}
    for name, row in rows.items():
        cells = {metric: number(row[metric]) for metric in METRICS}
        best = {metric: f"[bold]{cells[metric]}[/]" for metric in errors if row[metric] == lowest[metric] is not None}
        table.add_row(name, *(cells | best).values())
    console.print(table)
    for sentence in sentences(content, simulated):
        console.print(f"- {sentence}", markup=False)
