"""What everything on a terminal shares: one grid, one way to write a number, one JSON document, one hint."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from crossfeed.grid import Grid, column_widths, significant
from crossfeed.json_file import plain
from crossfeed.progress import console, output

if TYPE_CHECKING:
    from crossfeed.evaluation.statistics import Interval

MISSING = "-"


class WholeWords(Table):
    """A table that wraps between words: on a narrow terminal no number and no name is cut."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [
            [Text.from_markup(cell).plain for cell in (column.header, *column.cells) if isinstance(cell, str)]
            for column in self.columns
        ]
        gaps = 2 * (len(columns) - 1) if self.box else len(columns)
        for column, width in zip(self.columns, column_widths(columns, options.max_width - gaps)):
            column.width = width
        yield from super().__rich_console__(console, options)


def grid(
    title: str, columns: Sequence[str], rows: Iterable[Iterable[Any]] = (), words: int = 1, boxed: bool = True
) -> Table:
    """A table of texts and raw values, `boxed` with a rule below its head; the first columns hold `words`."""
    looks: dict[str, Any] = {"box": SIMPLE_HEAD, "show_edge": False, "pad_edge": False} if boxed else {"box": None}
    table = WholeWords(
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        padding=(0, 1, 0, 0),
        **looks,
    )
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position < words else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def print_table(title: str, names: Sequence[str], rows: Iterable[Iterable[Any]], words: int = 1) -> None:
    """A table without a box on the standard output."""
    output().print(grid(title, names, rows, words, boxed=False))


def print_grid(found: Grid) -> None:
    """A result as its room tells it, best cells in bold, and what has to be said beside it."""
    if found.rows:
        print_table(found.title, found.columns, found.marked("[bold]", "[/]"), found.words)
    for remark in found.remarks:
        output().print(f"- {remark}", markup=False)


def _cell(value: Any) -> str:
    return number(value) if value is None or isinstance(value, float) else str(value)


def number(value: float | None) -> str:
    """Three digits after the point, or three that matter where these would say nothing; a dash for the undefined."""
    if value is None or value != value:
        return MISSING
    if 0.001 <= abs(value) < 1000 or value == 0:
        return f"{value:.3f}"
    return significant(value) if abs(value) >= 1000 else f"{value:.3g}"


def short(value: float | None) -> str:
    """Three digits that matter, for quantities of any size in their own unit."""
    return MISSING if value is None else significant(value)


def bounds(interval: "Interval") -> str:
    """From where to where an estimate may lie; a dash with too few runs."""
    return MISSING if interval.low is None else f"{number(interval.low)} to {number(interval.high)}"


def estimate(interval: "Interval") -> str:
    """An estimate with its bounds in brackets, where there are any."""
    return number(interval.estimate) + ("" if interval.low is None else f" ({bounds(interval)})")


def say_absent(console: Console, absent: Mapping[str, float]) -> None:
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


def next_step(*words: str | Path) -> None:
    """The command that usually comes next, said beside the results and never among them."""
    command = " ".join(str(word) if str(word).isupper() else quote(str(word)) for word in words)
    console().print(f"next: crossfeed {command}", markup=False, style="dim", soft_wrap=True)
