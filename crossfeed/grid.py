"""A small table for two readers: lines of text on a terminal, HTML in a notebook."""

import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape

_WIDEST = 130  # characters of a line of text; longer cells are wrapped
_NAMED = 6  # names in a sentence
_STYLE = "text-align:{side};vertical-align:top;padding:2px 10px 2px 0;white-space:pre-line"


@dataclass(frozen=True)
class Grid:
    """A title, columns, rows of texts and remarks below; the first `words` columns are read from the left.

    `best` are the cells, as (row, column), that stand out in a document and on a terminal.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()
    words: int = 1
    best: Collection[tuple[int, int]] = ()

    def text(self) -> str:
        """Aligned lines, as `print` wants them."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        lines = [self.title]
        if self.rows:
            table = Table(
                box=SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=any(self.columns), padding=(0, 1, 0, 0)
            )
            room = _width() - 2 * (len(self.columns) - 1)
            widths = column_widths([*zip(self.columns, *self.rows)], room)
            for position, (column, width) in enumerate(zip(self.columns, widths)):
                side = "left" if position < self.words else "right"
                table.add_column(Text(column), justify=side, overflow="fold", width=width)  # type: ignore[arg-type]
            for row in self.rows:
                table.add_row(*(Text(cell) for cell in row))
            console = Console(width=_width(), color_system=None, force_terminal=False)
            with console.capture() as captured:
                console.print(table)
            lines += [line.rstrip() for line in captured.get().splitlines()]
        return "\n".join([*lines, *self.remarks])

    def html(self) -> str:
        """A table with its title and remarks, without style sheets or scripts."""
        head = "".join(self._cell("th", position, text) for position, text in enumerate(self.columns))
        body = "".join(
            f"<tr>{''.join(self._cell('td', position, text) for position, text in enumerate(row))}</tr>"
            for row in self.rows
        )
        head = f"<thead><tr>{head}</tr></thead>" if any(self.columns) else ""
        table = f"<table>{head}<tbody>{body}</tbody></table>" if self.rows else ""
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks)
        return f"<div><p><b>{escape(self.title)}</b></p>{table}{remarks}</div>"

    def markdown(self) -> str:
        """A heading and a table for a document."""
        lines = [self.columns, ["---"] * len(self.columns), *self.marked("**", "**")]
        return f"### {self.title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def marked(self, before: str, after: str) -> list[list[str]]:
        """The rows with each best cell between two marks."""
        return [
            [f"{before}{cell}{after}" if (number, column) in self.best else cell for column, cell in enumerate(row)]
            for number, row in enumerate(self.rows)
        ]

    def _cell(self, tag: str, position: int, text: str) -> str:
        side = "left" if position < self.words else "right"
        return f'<{tag} style="{_STYLE.format(side=side)}">{escape(text)}</{tag}>'


class ShownByGrids:
    """A result that its grids show: as text where it is printed, as HTML in a notebook."""

    __slots__ = ()

    def _grids(self) -> Sequence[Grid]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n\n".join(grid.text() for grid in self._grids())

    def _repr_html_(self) -> str:
        return "".join(grid.html() for grid in self._grids())


def significant(value: float, sign: str = "") -> str:
    """Three digits that matter, as a person writes them: 8,000 and not 8e+03, 15.0 and not 15."""
    if 999.5 <= abs(value) < 1e7:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}#.3g}".removesuffix(".") if value else f"{value:{sign}g}"


def named(names: Sequence[str], noun: str = "machines") -> str:
    """A few names as they are; many are counted, since nobody reads hundreds."""
    return ", ".join(names) if len(names) <= _NAMED else f"{len(names)} {noun}"


def plural(amount: int, noun: str) -> str:
    """One run, two runs; one entry, two entries."""
    several = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{amount:,} {noun if amount == 1 else several}"


def column_widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """How wide each column of texts becomes: no word is broken, and those that want little get it before the others."""
    widths = [max((len(word) for text in column for word in text.split()), default=0) for column in columns]
    wanted = [max((len(line) for text in column for line in text.splitlines()), default=0) for column in columns]
    left, order = max(0, room - sum(widths)), sorted(range(len(columns)), key=lambda some: wanted[some] - widths[some])
    for rank, position in enumerate(order):
        more = max(0, min(wanted[position] - widths[position], left // (len(order) - rank)))
        widths[position], left = widths[position] + more, left - more
    return widths


def _width() -> int:
    """No line is longer than the terminal; elsewhere there is room."""
    try:
        return min(_WIDEST, os.get_terminal_size(sys.stdout.fileno()).columns) if sys.stdout.isatty() else _WIDEST
    except (OSError, ValueError):
        return _WIDEST
