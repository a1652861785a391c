"""The document as one HTML file that needs nothing else: style and script inside, figures as SVG."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from crossfeed.evaluation.verdict import COVERAGE, COVERAGE_BAD
from crossfeed.reporting.blocks import Block, Choice, Document, Figure, Grid, Listing, Note, estimate
from crossfeed.reporting.numbers import LIGHTS, interval, share, written
from crossfeed.reporting.svg import draw
from crossfeed.training.measure.metrics import WEAK_COMMAND_USE

# Texts longer than this may wrap, but not into a column of single words.
LONG = 36


def page(document: Document) -> str:
    """The whole page; every text from outside is escaped."""
    environment = Environment(
        loader=FunctionLoader(_template), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "interval": interval,
        "share_interval": lambda value: interval(value, share),
        "light": lambda value: LIGHTS[value],
        "render": lambda block: _render(environment, block),
    }
    limits = {
        "low": share(COVERAGE[0]), "high": share(COVERAGE[1]), "bad": share(COVERAGE_BAD), "command": WEAK_COMMAND_USE,
    }  # fmt: skip
    return environment.get_template("report.html.j2").render(
        document=document, limits=limits, style=Markup(_template("style.css")), script=Markup(_template("script.js"))
    )


def _template(name: str) -> str:
    return files("crossfeed.reporting").joinpath("templates", name).read_text(encoding="utf-8")


def _render(environment: Environment, block: Block) -> Markup:
    """One block by the macro of its kind."""
    macros: Any = environment.get_template("blocks.html.j2").module
    if isinstance(block, Grid):
        return Markup(macros.grid(block, [_cells(block, row) for row in block.rows], block.columns))
    if isinstance(block, Figure):
        return Markup(macros.figure(block, _drawings(block)))
    if isinstance(block, Choice):
        return Markup(macros.choice(block, {name: _drawings(one) for name, one in block.options.items()}))
    if isinstance(block, Note):
        return Markup(macros.note(block))
    assert isinstance(block, Listing)
    return Markup(macros.listing(block))


def _drawings(figure: Figure) -> list[Markup]:
    """One drawing for each place on the page."""
    drawn, size = [draw(panel) for panel in figure.panels], figure.stacked
    return [Markup("").join(drawn[start : start + size]) for start in range(0, len(drawn), size)]


def _cells(grid: Grid, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    cells = []
    for column in grid.columns:
        value = row.get(column.key)
        best = grid.best(column)
        kind = f"light {value}" if column.kind == "light" else column.kind
        text = (
            interval(value, share)
            if column.kind == "share" and isinstance(value, Mapping)
            else written(value, column.kind)
        )
        cells.append(
            {
                "text": text,
                "kind": f"{kind} long" if column.kind == "text" and len(text) > LONG else kind,
                "best": best is not None and estimate(value) == best,
                "full": str(value) if column.kind == "hash" and value else "",
            }
        )
    return cells
