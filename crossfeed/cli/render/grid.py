"""What every table on a terminal shares: one grid, and one way to write a number, its bounds and a note."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from crossfeed.evaluation.statistics import Interval

MISSING = "-"


def grid(title: str, columns: Sequence[str], left: int = 1) -> Table:
    """An empty table; the first columns hold words, the others numbers."""
    table = Table(title=title or None, title_justify="left")
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position < left else "right")
    return table


def number(value: float | None) -> str:
    """Three digits after the point, or three that matter where these would say nothing; a dash for the undefined."""
    if value is None:
        return MISSING
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"


def bounds(interval: "Interval") -> str:
    """From where to where an estimate may lie; a dash with too few runs."""
    return MISSING if interval.low is None else f"{number(interval.low)} to {number(interval.high)}"


def estimate(interval: "Interval") -> str:
    """An estimate with its bounds in brackets, where there are any."""
    return number(interval.estimate) + ("" if interval.low is None else f" ({bounds(interval)})")
