"""Tables as files: CSV with the numbers as they were recorded, LaTeX in the layout of the paper."""

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crossfeed.atomic import atomic_file
from crossfeed.reporting.blocks import Column, ReportTable, estimate
from crossfeed.reporting.numbers import written

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


def write_csv(grid: ReportTable, path: Path) -> None:
    """Every number at full precision; the bounds of an interval, or its spread, take columns of their own."""
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_headings(grid))
        for row in grid.rows:
            writer.writerow(
                [cell for column in grid.columns for cell in _cells(row.get(column.key), _parts(grid, column))]
            )


def _parts(grid: ReportTable, column: Column) -> list[str]:
    """What any row says about the uncertainty of this column."""
    cells = [row.get(column.key) for row in grid.rows]
    return [part for part in _PARTS if any(isinstance(cell, Mapping) and part in cell for cell in cells)]


def _headings(grid: ReportTable) -> list[str]:
    return [
        name
        for column in grid.columns
        for name in (column.key, *(f"{column.key}_{part}" for part in _parts(grid, column)))
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


def write_latex(grid: ReportTable, path: Path) -> None:
    """A floating table of its own, to be read with \\input."""
    with atomic_file(path) as temporary:
        temporary.write_text(latex(grid), encoding="utf-8")


def latex(grid: ReportTable) -> str:
    """The table in the paper's layout: small type, booktabs rules, a tinted head, the best value in bold."""
    layout = "".join("l" if column.format in ("text", "light", "hash") else "c" for column in grid.columns)
    heads = " & ".join(column.latex or tex(column.title) for column in grid.columns)
    lines = [
        r"\begin{table*}[t]",
        r"\centering",
        rf"\caption{{{tex(grid.caption)}}}",
        rf"\label{{tab:{re.sub('[^a-z0-9-]+', '-', (grid.label or grid.name).lower())}}}",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{4pt}",
        r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        r"\rowcolor{cvprblue!10}",
        rf"{heads} \\",
        r"\midrule",
    ]
    for row in grid.rows:
        lines.append(" & ".join(_latex_cell(grid, column, row.get(column.key)) for column in grid.columns) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}}", r"\end{table*}"]
    return _HEAD + "\n".join(lines) + "\n"


def _latex_cell(grid: ReportTable, column: Column, value: Any) -> str:
    text = tex(written(value, column.format)).strip()
    best = grid.best(column)
    return rf"\textbf{{{text}}}" if best is not None and estimate(value) == best else text


def tex(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(_SPECIAL.get(letter, letter) for letter in text)
