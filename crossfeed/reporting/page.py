"""The document as one HTML file that needs nothing else: style and script inside, figures as SVG."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from crossfeed.evaluation.verdict import COVERAGE, COVERAGE_BAD
from crossfeed.json_file import plain
from crossfeed.reporting.blocks import (
    Block,
    CellFormat,
    Document,
    Figure,
    FigureChoice,
    Listing,
    Note,
    ReportTable,
    estimate,
)
from crossfeed.reporting.drawn_figures import Drawings, draw_figures
from crossfeed.reporting.numbers import LIGHTS, interval_parts, number, share, written
from crossfeed.training.measure import WEAK_COMMAND_USE

# Texts longer than this may wrap, but not into a column of single words.
LONG_TEXT = 36


def page(document: Document, drawings: Drawings | None = None) -> str:
    """The whole page; every text from outside is escaped."""
    drawn = draw_figures(document) if drawings is None else drawings
    environment = Environment(
        loader=FunctionLoader(_template), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "two_lines": _two_lines,
        "light": lambda value: LIGHTS[value],
        "render": lambda block: _render(environment, block, drawn),
    }
    limits = {
        "low": share(COVERAGE[0]), "high": share(COVERAGE[1]), "bad": share(COVERAGE_BAD), "command": WEAK_COMMAND_USE,
    }  # fmt: skip
    return environment.get_template("report.html.j2").render(
        document=document, limits=limits, style=Markup(_template("style.css")), script=Markup(_template("script.js"))
    )


def _template(name: str) -> str:
    return files("crossfeed.reporting").joinpath("templates", name).read_text(encoding="utf-8")


def _render(environment: Environment, block: Block, drawn: Drawings) -> Markup:
    """One block by the macro of its kind."""
    macros: Any = environment.get_template("blocks.html.j2").module
    if isinstance(block, ReportTable):
        return Markup(macros.grid(block, [_cells(block, row) for row in block.rows], block.columns))
    if isinstance(block, Figure):
        return Markup(macros.figure(block, _cells_of(block, drawn)))
    if isinstance(block, FigureChoice):
        return Markup(macros.choice(block, {name: _cells_of(one, drawn) for name, one in block.options.items()}))
    if isinstance(block, Note):
        return Markup(macros.note(block))
    assert isinstance(block, Listing)
    return Markup(macros.listing(block))


def _cells_of(figure: Figure, drawn: Drawings) -> list[Markup]:
    """One piece for each place on the page; stacked drawings share one."""
    pieces, size = drawn[figure.name].panels, figure.stacked
    return [Markup("").join(pieces[start : start + size]) for start in range(0, len(pieces), size)]


def _two_lines(value: Any, cell_format: CellFormat = "number") -> Markup:
    """A cell whose bounds stand below its estimate, so that a table of intervals fits a screen."""
    value = plain(value)
    if isinstance(value, Mapping):
        told, bounds = interval_parts(value, share if cell_format == "share" else number)
    else:
        told, bounds = written(value, cell_format), ""
    return Markup("{}<small>{}</small>").format(told, bounds) if bounds else escape(told)


def _cells(grid: ReportTable, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    cells = []
    for column in grid.columns:
        value = row.get(column.key)
        best = grid.best(column)
        css_class = f"light {value}" if column.format == "light" else column.format
        text = _two_lines(value, column.format)
        cells.append(
            {
                "text": text,
                "css_class": f"{css_class} long" if column.format == "text" and len(text) > LONG_TEXT else css_class,
                "best": best is not None and estimate(value) == best,
                "full": str(value) if column.format == "hash" and value else "",
            }
        )
    return cells
