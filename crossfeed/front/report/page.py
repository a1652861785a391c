"""What a report is made of (sections of sentences, tables and figures), and the one HTML file it becomes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from crossfeed.evaluation.verdict import COVERAGE, COVERAGE_BAD, ChannelVerdict
from crossfeed.progress import progress
from crossfeed.show.drawing import panel_drawer
from crossfeed.show.figures import Figure
from crossfeed.show.formats import html, html_words
from crossfeed.show.tables import LIGHTS, ResultTable, share
from crossfeed.training.config import WEAK_COMMAND_USE

Tone = Literal["plain", "good", "fair", "bad", "next"]


@dataclass(frozen=True)
class FigureChoice:
    """Figures of which one is shown at a time, picked by name."""

    name: str
    label: str
    options: Mapping[str, Figure]
    first: str


@dataclass(frozen=True)
class Note:
    """A sentence or two; the tone says how it is set off."""

    words: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Listing:
    """Commands to type, as they are."""

    lines: tuple[str, ...]


Block = ResultTable | Figure | FigureChoice | Note | Listing


@dataclass(frozen=True)
class Section:
    """One heading of the report with a sentence that says what to see."""

    anchor: str
    title: str
    lead: str
    blocks: tuple[Block, ...] = ()

    def tables(self) -> tuple[ResultTable, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ResultTable))

    def figures(self) -> tuple[Figure, ...]:
        """All figures, of choices the one that is shown first."""
        single = [block for block in self.blocks if isinstance(block, Figure)]
        chosen = [block.options[block.first] for block in self.blocks if isinstance(block, FigureChoice)]
        return (*single, *chosen)

    def hidden_figures(self) -> tuple[Figure, ...]:
        """The figures of choices that are not shown first."""
        choices = [block for block in self.blocks if isinstance(block, FigureChoice)]
        return tuple(figure for one in choices for name, figure in one.options.items() if name != one.first)


@dataclass(frozen=True)
class VerdictBox:
    """The box at the top: one answer in plain words, and the lights channel by channel."""

    question: str
    answer: str
    tone: Tone
    sentences: tuple[str, ...]
    lights: tuple[ChannelVerdict, ...] = ()
    next_steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Document:
    """A whole report, ready to be written."""

    title: str
    subtitle: str
    verdict: VerdictBox
    sections: tuple[Section, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    # What a reader must know before any number.
    remark: str = ""


Drawings = Mapping[str, tuple[Markup, ...]]


def draw_figures(document: Document) -> Drawings:
    """The panels of every figure of a document, by the figure's name."""
    figures = [figure for section in document.sections for figure in (*section.figures(), *section.hidden_figures())]
    drawn = {}
    with panel_drawer() as drawer, progress("Drawing figures", len(figures)) as task:
        for figure in figures:
            drawn[figure.name] = tuple(drawer.draw(panel) for panel in figure.panels)
            task.advance(1)
    return drawn


def page(document: Document) -> str:
    """The whole page; every text from outside is escaped."""
    drawn = draw_figures(document)
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
    return files("crossfeed.front.report").joinpath("templates", name).read_text(encoding="utf-8")


def _render(environment: Environment, block: Block, drawn: Drawings) -> Markup:
    """One block by the macro of its kind."""
    macros: Any = environment.get_template("blocks.html.j2").module
    if isinstance(block, ResultTable):
        return Markup(macros.table(block, Markup(html(block))))
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
    pieces, size = drawn[figure.name], figure.stacked
    return [Markup("").join(pieces[start : start + size]) for start in range(0, len(pieces), size)]


def _two_lines(value: Any, cell_format: str = "number") -> Markup:
    return Markup(html_words(value, cell_format))
