"""A small table for two readers: lines of text on a terminal, HTML in a notebook."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDEST = 130  # characters of a line of text; longer cells are wrapped
_STYLE = "text-align:{side};vertical-align:top;padding:2px 10px 2px 0;white-space:pre-line"


@dataclass(frozen=True)
class Grid:
    """A title, columns, rows of texts and remarks below; the first `words` columns are read from the left."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()
    words: int = 1

    def text(self) -> str:
        """Aligned lines, as `print` wants them."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        lines = [self.title]
        if self.rows:
            table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=any(self.columns))
            for position, column in enumerate(self.columns):
                table.add_column(Text(column), justify="left" if position < self.words else "right", overflow="fold")
            for row in self.rows:
                table.add_row(*(Text(cell) for cell in row))
            console = Console(width=_WIDEST, color_system=None, force_terminal=False)
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

    def _cell(self, tag: str, position: int, text: str) -> str:
        side = "left" if position < self.words else "right"
        return f'<{tag} style="{_STYLE.format(side=side)}">{escape(text)}</{tag}>'
