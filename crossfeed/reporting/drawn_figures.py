"""All figures of a document, drawn on two cores where that is safe: panels for the page, PNG files for everything else.

Figures are set and drawn in Python, so a second core takes a second process.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from crossfeed.processes import beside
from crossfeed.progress import progress
from crossfeed.reporting.blocks import Document, Figure
from crossfeed.reporting.drawing import easel, prepare_to_draw
from crossfeed.reporting.figure_files import figure_file

# Below this many drawings a second process would cost more than it saves.
FEW = 12


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
    here, there = _halves(orders)
    prepare_to_draw()
    with beside(_draw_all, there) as drawn_there, progress("Drawing figures", len(here)) as task:
        return {**_draw_all(here, task.advance), **drawn_there()}


def _halves(orders: Sequence[FigureOrder]) -> tuple[list[FigureOrder], list[FigureOrder]]:
    """About as much work for each of two processes; all of it for the first where it is little."""
    halves: tuple[list[FigureOrder], list[FigureOrder]] = ([], [])
    for one in orders:
        done = [sum(order.drawings for order in half) for half in halves]
        halves[int(done[1] < done[0])].append(one)
    if sum(one.drawings for one in orders) < FEW:
        return list(orders), []
    return halves


def _draw_all(orders: Sequence[FigureOrder], advance: Callable[[], None] | None = None) -> dict[str, DrawnFigure]:
    drawn = {}
    with easel() as one:
        for order in orders:
            drawings = [one.draw(panel, order.becomes_file) for panel in order.figure.panels]
            file = figure_file(order.figure, drawings) if order.becomes_file else None
            drawn[order.figure.name] = DrawnFigure(tuple(drawing.svg for drawing in drawings), file)
            if advance is not None:
                advance()
    return drawn
