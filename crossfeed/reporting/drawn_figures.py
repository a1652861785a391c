"""All figures of a document, drawn on two cores where that is safe: panels for the page, PNG files for everything else.

Figures are set and drawn in Python, so a second core takes a second process.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from crossfeed.processes import each_taken_once, in_forked_process
from crossfeed.progress import progress
from crossfeed.reporting.blocks import Document, Figure
from crossfeed.reporting.drawing import panel_drawer, prepare_to_draw
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
    # The largest first, so that nobody begins with one when all others are done.
    orders.sort(key=lambda order: order.drawings, reverse=True)
    few = sum(order.drawings for order in orders) < FEW
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
