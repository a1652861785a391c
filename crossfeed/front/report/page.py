"""The document as one HTML file that needs nothing else, and its figures drawn for the page and as PNG files.

Figures are set and drawn in Python, so a second core takes a second process. A file holds the drawings of the page side
by side, with the legend below."""

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from crossfeed.evaluation.verdict import COVERAGE, COVERAGE_BAD, ChannelVerdict
from crossfeed.processes import each_taken_once, in_forked_process
from crossfeed.progress import progress
from crossfeed.show.drawing import Drawing, columns_of, legend_keys, panel_drawer, prepare_to_draw
from crossfeed.show.figures import Figure, new_figure
from crossfeed.show.formats import html, html_words
from crossfeed.show.tables import LIGHTS, ResultTable, share
from crossfeed.training.config import WEAK_COMMAND_USE

# What a report is made of: sections that hold sentences, tables and figures, before anyone decides how they look.


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


def section(anchor: str, title: str, lead: str, blocks: Sequence[Block]) -> list[Section]:
    """One section, or none where there is nothing to show."""
    return [Section(anchor, title, lead, tuple(blocks))] if blocks else []


# Below this many drawings a second process would cost more than it saves.
FEW_DRAWINGS = 12
_DOTS_PER_INCH = 144
_LEGEND_COLUMNS, _LEGEND_ROW = 4, 0.25
_COMPRESSION = 3  # half the time of the usual 6 for files that are a fifth larger


@dataclass(frozen=True)
class DrawnFigure:
    """A figure panel by panel, and the content of its PNG file where it has one."""

    panels: tuple[Markup, ...]
    file: bytes | None


Drawings = Mapping[str, DrawnFigure]


@dataclass(frozen=True)
class FigureOrder:
    """A figure to be drawn, with or without its file."""

    figure: Figure
    becomes_file: bool

    @property
    def drawings(self) -> int:
        """How often matplotlib will draw."""
        return len(self.figure.panels) * (2 if self.becomes_file else 1)


def draw_figures(document: Document, with_files: bool = False) -> dict[str, DrawnFigure]:
    """Every figure of a document by its name; the hidden ones of a choice have no files."""
    orders = [FigureOrder(figure, with_files) for section in document.sections for figure in section.figures()]
    orders += [FigureOrder(figure, False) for section in document.sections for figure in section.hidden_figures()]
    # The largest first, so that nobody begins with one when all others are done.
    orders.sort(key=lambda order: order.drawings, reverse=True)
    few = sum(order.drawings for order in orders) < FEW_DRAWINGS
    prepare_to_draw()
    with (
        each_taken_once(orders) as left,
        in_forked_process(_draw_all, iter(()) if few else left) as drawn_there,
        progress("Drawing figures", len(orders)) as task,
    ):
        drawn = _draw_all(left, task.advance)
        drawn |= drawn_there()
    # What a copy had taken when somebody ended it.
    lost = [(number, order) for number, order in enumerate(orders) if order.figure.name not in drawn]
    return drawn | _draw_all(lost)


def _draw_all(
    orders: Iterable[tuple[int, FigureOrder]], advance: Callable[[float], None] | None = None
) -> dict[str, DrawnFigure]:
    drawn, done = {}, 0
    with panel_drawer() as one:
        for number, order in orders:
            drawings = [one.draw(panel, order.becomes_file) for panel in order.figure.panels]
            file = figure_file(order.figure, drawings) if order.becomes_file else None
            drawn[order.figure.name] = DrawnFigure(tuple(drawing.svg for drawing in drawings), file)
            if advance is not None:  # numbers in between were taken by somebody else
                advance(number + 1 - done)
                done = number + 1
    return drawn


def figure_file(figure: Figure, drawings: Sequence[Drawing]) -> bytes:
    """All panels of a figure as one PNG, at most three side by side; stacked ones share a column."""
    from PIL.Image import fromarray

    ordered = [drawing for level in range(figure.stacked) for drawing in drawings[level :: figure.stacked]]
    across = columns_of(figure)
    pictures = [drawing.pixels for drawing in ordered if drawing.pixels is not None]
    rows = [_side_by_side(pictures[start : start + across], across) for start in range(0, len(pictures), across)]
    if figure.legend:
        rows.append(_legend(figure, rows[0].shape[1]))
    file, dots = io.BytesIO(), (_DOTS_PER_INCH, _DOTS_PER_INCH)
    fromarray(np.concatenate(rows)).save(file, "png", compress_level=_COMPRESSION, dpi=dots)
    return file.getvalue()


def _side_by_side(pictures: Sequence[np.ndarray], across: int) -> np.ndarray:
    """One row, on white where a picture is lower than its neighbours or missing."""
    height, width = max(len(picture) for picture in pictures), pictures[0].shape[1]
    row = np.full((height, width * across, 3), 255, dtype=np.uint8)
    for number, picture in enumerate(pictures):
        row[: len(picture), number * width : (number + 1) * width] = picture
    return row


def _legend(figure: Figure, width: int) -> np.ndarray:
    height = _LEGEND_ROW * math.ceil(len(figure.legend) / _LEGEND_COLUMNS) + 0.1
    with new_figure(width / _DOTS_PER_INCH, height) as drawn:
        drawn.set_dpi(_DOTS_PER_INCH)
        drawn.legend(*legend_keys(figure), loc="center", ncols=_LEGEND_COLUMNS)
        canvas: Any = drawn.canvas
        canvas.draw()
        drawn_rows = np.asarray(canvas.buffer_rgba())[..., :3]
    strip = np.full((len(drawn_rows), width, 3), 255, dtype=np.uint8)
    strip[:, : drawn_rows.shape[1]] = drawn_rows[:, :width]
    return strip


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
    pieces, size = drawn[figure.name].panels, figure.stacked
    return [Markup("").join(pieces[start : start + size]) for start in range(0, len(pieces), size)]


def _two_lines(value: Any, cell_format: str = "number") -> Markup:
    return Markup(html_words(value, cell_format))
