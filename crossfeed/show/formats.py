"""A table as lines of a terminal, as HTML, Markdown, CSV with the numbers as recorded, and LaTeX as in the paper."""

import csv
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossfeed.files import atomic_file, plain
from crossfeed.show.tables import Column, ResultTable, cell_parts, estimate, written

if TYPE_CHECKING:
    from rich.table import Table

_WIDEST = 130  # characters of a line of text; longer cells are wrapped
_LONG = 36  # texts longer than this may wrap on a page, but not into a column of single words
_ON_TERMINALS = str.maketrans({"−": "-", "–": "-"})
_STYLE = ' style="text-align:{side};vertical-align:top;padding:2px 10px 2px 0;white-space:pre-line"'
_PARTS = ("low", "high", "spread")
_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "−": "$-$", "–": "--", "±": r"$\pm$", "·": r"$\cdot$", "●": "", "◐": "", "○": "", "…": r"\dots{}", "²": "$^2$",
    "µ": r"$\mu$", "°": r"$^\circ$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "→": r"$\to$",
    "\n": " ",
}  # fmt: skip
_HEAD = """% Needs the packages booktabs, colortbl, graphicx and xcolor.
\\providecolor{cvprblue}{rgb}{0.21,0.49,0.74}
"""


def rich_table(table: ResultTable, width: int, boxed: bool = True, marks: Sequence[str] = ()) -> "Table":
    """A table for a terminal of this width, best values in bold: no number is cut; `marks` colour the first cells."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Table(
        box=SIMPLE_HEAD if boxed else None, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0),
        title=Text(table.caption) if table.caption else None, title_justify="left", title_style="bold",
        header_style="bold", show_header=any(column.title for column in table.columns),
    )  # fmt: skip
    cells = [[_lines(row.get(column.key), column) for column in table.columns] for row in table.rows]
    heads = [column.title for column in table.columns]
    gaps = 2 * (len(heads) - 1) if boxed else len(heads)
    for column, needed in zip(table.columns, column_widths([*zip(heads, *cells, strict=True)], width - gaps)):
        shown.add_column(Text(column.title), justify=column.alignment, overflow="fold", width=needed)
    for at, (row, line) in enumerate(zip(table.rows, cells, strict=True)):
        styles = ["bold" if table.is_best(column, row) else "" for column in table.columns]
        styles[:1] = marks[at : at + 1] or styles[:1]
        shown.add_row(*(Text(cell, style) for cell, style in zip(line, styles, strict=True)))
    return shown


def _lines(value: Any, column: Column) -> str:
    """A cell on a terminal; the bounds of an interval stand below its estimate."""
    return "\n".join(filter(None, cell_parts(value, column.format))).translate(_ON_TERMINALS)


def column_widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """How wide each column of texts becomes: no word is broken, and those that want little get it before the others."""
    widths = [max((len(word) for text in column for word in text.split()), default=0) for column in columns]
    wanted = [max((len(line) for text in column for line in text.splitlines()), default=0) for column in columns]
    left, order = max(0, room - sum(widths)), sorted(range(len(columns)), key=lambda some: wanted[some] - widths[some])
    for rank, position in enumerate(order):
        more = max(0, min(wanted[position] - widths[position], left // (len(order) - rank)))
        widths[position], left = widths[position] + more, left - more
    return widths


def text(table: ResultTable) -> str:
    """Aligned lines, as `print` wants them, with the remarks below."""
    from rich.console import Console

    lines = [table.caption]
    if table.rows:
        console = Console(width=_width(), color_system=None, force_terminal=False)
        with console.capture() as captured:
            console.print(rich_table(replace(table, caption=""), _width()))
        lines += [line.rstrip() for line in captured.get().splitlines()]
    return "\n".join([*lines, *table.remarks])


def _width() -> int:
    """No line is longer than the terminal; elsewhere there is room."""
    try:
        return min(_WIDEST, os.get_terminal_size(sys.stdout.fileno()).columns) if sys.stdout.isatty() else _WIDEST
    except (OSError, ValueError):
        return _WIDEST


def html(table: ResultTable, styled: bool = False) -> str:
    """The table itself, each cell with its format as a class; `styled` where no style sheet is at hand."""
    heads = [
        f'<th class="{column.format}"{_styled(column, styled)}>{escape(column.title)}</th>' for column in table.columns
    ]
    head = f"<thead><tr>{''.join(heads)}</tr></thead>" if any(column.title for column in table.columns) else ""
    rows = [
        "".join(_html_cell(table, column, row, at == 0, styled) for at, column in enumerate(table.columns))
        for row in table.rows
    ]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _html_cell(table: ResultTable, column: Column, row: Mapping[str, Any], first: bool, styled: bool) -> str:
    """A cell whose bounds stand below its estimate, so that a table of intervals fits a screen."""
    value = plain(row.get(column.key))
    shown = html_words(value, column.format)
    classes = [column.format, *([str(value)] if column.format == "light" else [])]
    classes += ["long"] if column.format == "text" and len(shown) > _LONG else []
    classes += ["best"] if table.is_best(column, row) else []
    full = f' title="{escape(str(value))}"' if column.format == "hash" and value else ""
    tag, scope = ("th", " scope=row") if first and not styled else ("td", "")
    return f'<{tag}{scope} class="{escape(" ".join(classes))}"{full}{_styled(column, styled)}>{shown}</{tag}>'


def html_words(value: Any, cell_format: Any = "number") -> str:
    """What a cell says, escaped."""
    said, doubt = cell_parts(plain(value), cell_format)
    return f"{escape(said)}<small>{escape(doubt)}</small>" if doubt else escape(said)


def _styled(column: Column, styled: bool) -> str:
    return _STYLE.format(side=column.alignment) if styled else ""


def notebook_html(table: ResultTable) -> str:
    """A table with its title and remarks, without style sheets or scripts."""
    remarks = "".join(f"<p>{escape(remark)}</p>" for remark in table.remarks)
    shown = html(table, styled=True) if table.rows else ""
    return f"<div><p><b>{escape(table.caption)}</b></p>{shown}{remarks}</div>"


def markdown(table: ResultTable) -> str:
    """A heading and a table for a document, the best values in bold."""
    lines = [[column.title for column in table.columns], ["---"] * len(table.columns)]
    for row in table.rows:
        cells = [(column, written(row.get(column.key), column.format)) for column in table.columns]
        lines.append([f"**{cell}**" if table.is_best(column, row) else cell for column, cell in cells])
    return f"### {table.caption}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_csv(table: ResultTable, path: Path) -> None:
    """Every number at full precision; the bounds of an interval, or its spread, take columns of their own."""
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_headings(table))
        for row in table.rows:
            writer.writerow(
                [cell for column in table.columns for cell in _cells(row.get(column.key), _parts(table, column))]
            )


def _parts(table: ResultTable, column: Column) -> list[str]:
    """What any row says about the uncertainty of this column."""
    cells = [row.get(column.key) for row in table.rows]
    return [part for part in _PARTS if any(isinstance(cell, Mapping) and part in cell for cell in cells)]


def _headings(table: ResultTable) -> list[str]:
    return [
        name
        for column in table.columns
        for name in (column.key, *(f"{column.key}_{part}" for part in _parts(table, column)))
    ]


def _cells(value: Any, parts: list[str]) -> list[Any]:
    known = value if isinstance(value, Mapping) else {}
    return [_raw(estimate(value)), *(_raw(known.get(part)) for part in parts)]


def _raw(value: Any) -> Any:
    """A number in its shortest exact spelling; a text that a spreadsheet would run as a formula is quoted."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    text = str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") and not isinstance(value, int) else text


def write_latex(table: ResultTable, path: Path) -> None:
    """A floating table of its own, to be read with \\input."""
    with atomic_file(path) as temporary:
        temporary.write_text(latex(table), encoding="utf-8")


def latex(table: ResultTable) -> str:
    """The table in the paper's layout: small type, booktabs rules, a tinted head, the best value in bold."""
    layout = "".join("l" if column.alignment == "left" else "c" for column in table.columns)
    heads = " & ".join(column.latex or tex(column.title) for column in table.columns)
    lines = [
        r"\begin{table*}[t]",
        r"\centering",
        rf"\caption{{{tex(table.caption)}}}",
        rf"\label{{tab:{re.sub('[^a-z0-9-]+', '-', (table.label or table.name).lower())}}}",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{4pt}",
        r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        r"\rowcolor{cvprblue!10}",
        rf"{heads} \\",
        r"\midrule",
    ]
    for row in table.rows:
        lines.append(" & ".join(_latex_cell(table, column, row) for column in table.columns) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}}", r"\end{table*}"]
    return _HEAD + "\n".join(lines) + "\n"


def _latex_cell(table: ResultTable, column: Column, row: Mapping[str, Any]) -> str:
    text = tex(written(row.get(column.key), column.format)).strip()
    return rf"\textbf{{{text}}}" if table.is_best(column, row) else text


def tex(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(_SPECIAL.get(letter, letter) for letter in text)
