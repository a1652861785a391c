"""What everything on a terminal shares: one grid, one way to write a number and its bounds, one JSON document."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from crossfeed.json_file import plain

if TYPE_CHECKING:
    from rich.console import Console

    from crossfeed.evaluation.statistics import Interval

MISSING = "-"


def grid(title: str, columns: Sequence[str], words: int = 1, boxed: bool = True) -> Table:
    """An empty table; the first columns hold `words`, the others numbers."""
    if boxed:
        table = Table(title=title or None, title_justify="left")
    else:
        table = Table(title=title or None, title_justify="left", box=None, padding=(0, 1, 0, 0), header_style="bold")
    for position, column in enumerate(columns):
        table.add_column(
            column, justify="left" if position < words else "right", no_wrap=not boxed and position >= words
        )
    return table


def number(value: float | None) -> str:
    """Three digits after the point, or three that matter where these would say nothing; a dash for the undefined."""
    if value is None or value != value:
        return MISSING
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"


def short(value: float | None) -> str:
    """Three digits that matter, for quantities of any size in their own unit."""
    return MISSING if value is None else f"{value:.3g}"


def bounds(interval: "Interval") -> str:
    """From where to where an estimate may lie; a dash with too few runs."""
    return MISSING if interval.low is None else f"{number(interval.low)} to {number(interval.high)}"


def estimate(interval: "Interval") -> str:
    """An estimate with its bounds in brackets, where there are any."""
    return number(interval.estimate) + ("" if interval.low is None else f" ({bounds(interval)})")


def say_absent(console: "Console", absent: Mapping[str, float]) -> None:
    """Which commands a table lacks, and what they are taken for."""
    for name, value in absent.items():
        console.print(f"[yellow]note:[/] the table has no {name}; it is taken as {value:g} throughout", highlight=False)


def print_json(content: Any) -> None:
    """One JSON document on standard output and nothing else."""
    print(json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False))


def print_result(content: Any, as_json: bool, show: Callable[[], None]) -> None:
    """A result as one JSON document where that was asked for, else as `show` prints it for people."""
    if as_json:
        print_json(content)
    else:
        show()


def print_table(title: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table of raw values; numbers are never cut: on a narrow terminal the first column folds."""
    from crossfeed.progress import output

    table, cells = grid(title, names, boxed=False), [[_cell(value) for value in row] for row in rows]
    for position, column in enumerate(table.columns):
        column.no_wrap = position > 0
        column.overflow = "fold"
        column.min_width = max([len(names[position]), *(len(row[position]) for row in cells)]) if position else None
    for row in cells:
        table.add_row(*row)
    output().print(table)


def _cell(value: Any) -> str:
    return number(value) if value is None or isinstance(value, float) else str(value)
