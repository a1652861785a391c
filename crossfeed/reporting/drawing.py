"""Panels drawn by matplotlib, each of them once: as SVG for the page and, from the same artists, as pixels for files.

A panel is 420 units wide, so that its letters can be read on a phone; wider screens put several side by side.
"""

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from markupsafe import Markup

from crossfeed.plots import COLOURS, house_style
from crossfeed.reporting.inline_svg import INK, RULE, SOFT, inline, series_tag
from crossfeed.reporting.numbers import number
from crossfeed.reporting.panels import XY, Band, Bars, Dot, Dots, Line, Number, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, LOW_HEIGHT = 420.0, 250.0, 150.0
LONGEST_NAME, LONGEST_TITLE = 22, 58
MOST_KEPT = 500
PIXELS_PER_UNIT = 2.0
_UNITS_PER_INCH = 72.0
_LEFT, _LABELS, _RIGHT, _TOP, _BOTTOM, _ROW = 60.0, 160.0, 14.0, 28.0, 42.0, 22.0
_STYLE: dict[str, Any] = {
    "figure.dpi": _UNITS_PER_INCH, "figure.constrained_layout.use": False, "font.family": ["DejaVu Sans"],
    "font.size": 10.5, "axes.titlesize": 11.5, "axes.titleweight": "bold", "axes.titlecolor": INK,
    "axes.labelcolor": SOFT, "axes.labelsize": 10.5, "text.color": SOFT, "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "xtick.bottom": False, "ytick.left": False, "axes.spines.left": False, "axes.spines.bottom": False,
    "grid.color": RULE, "grid.linewidth": 0.8, "axes.formatter.useoffset": False, "axes.formatter.limits": (-4, 5),
    "svg.fonttype": "none",
}  # fmt: skip


@dataclass(frozen=True)
class Drawing:
    """One panel for the page, and its pixels (rows, columns, RGB) where a file will need them."""

    svg: Markup
    pixels: np.ndarray | None


def prepare_to_draw() -> None:
    """Import what every drawing needs, once, before a process that shares the work is split off."""
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401


@contextmanager
def panel_drawer() -> "Iterator[PanelDrawer]":
    """Draw any number of panels in the house style."""
    with house_style(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the page has fonts of its own
        yield PanelDrawer()


class PanelDrawer:
    """Keeps its axes and empties them, because making axes costs more than filling them; draws equal panels once."""

    # What this process has drawn for pages: a report that is written again is drawn only where it changed.
    _kept: ClassVar[dict[str, Drawing]] = {}

    def __init__(self) -> None:
        self._axes: dict[type[Panel], Axes] = {}
        self._drawn: dict[str, Drawing] = {}

    def draw(self, panel: Panel, pixels: bool = False) -> Drawing:
        """One panel."""
        key = repr(panel)
        known = self._drawn.get(key) or self._kept.get(key)
        if known is None or (pixels and known.pixels is None):
            known = self._drawn[key] = self._fresh(panel, key, pixels)
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = Drawing(known.svg, None)
        return known

    def _fresh(self, panel: Panel, key: str, pixels: bool) -> Drawing:
        import matplotlib as mpl

        if type(panel) not in self._axes:
            self._axes[type(panel)] = _new_axes()
        axes = self._axes[type(panel)]
        marks = Artists(axes)
        frame = _fill_xy(panel, marks) if isinstance(panel, XY) else _fill_dots(panel, marks)
        figure: Any = axes.figure
        # Names inside a drawing must not meet those of another one on the same page.
        mpl.rcParams["svg.hashsalt"] = key
        css_class = "xy" if isinstance(panel, XY) else "dots"
        svg = inline(_svg(figure), css_class, panel.title, (*frame, *axes.get_xlim()), marks.tags)
        drawing = Drawing(svg, _pixels(figure) if pixels else None)
        marks.clear()
        return drawing


class Artists:
    """What is put on axes: artists that know their series, to be taken off again."""

    def __init__(self, axes: "Axes") -> None:
        self.axes = axes
        self.tags: list[str] = []
        self._artists: list[Any] = []

    def add(self, artist: Any, series: str = "", hint: str = "", values: Sequence[Sequence[float]] = ()) -> None:
        """Keep an artist; one of a series can be hidden by its name, read by its values, and explains itself."""
        self._artists.append(artist)
        if series:
            artist.set_gid(f"s{len(self.tags)}")
            self.tags.append(series_tag(series, hint, values))

    def clear(self) -> None:
        for artist in self._artists:
            artist.remove()


def _new_axes() -> "Axes":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / _UNITS_PER_INCH, HEIGHT / _UNITS_PER_INCH))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.1, 0.1, 0.8, 0.8), facecolor="none")
    figure.patch.set_visible(False)
    return axes


def _place(axes: "Axes", panel: Panel, height: float, left: float) -> tuple[float, float, float, float]:
    """Size, title and labels of a panel, each in its place, so that nothing must be measured; gives the frame."""
    figure: Any = axes.figure
    figure.set_size_inches(WIDTH / _UNITS_PER_INCH, height / _UNITS_PER_INCH)
    inner = (WIDTH - left - _RIGHT, height - _TOP - _BOTTOM)
    axes.set_position((left / WIDTH, _BOTTOM / height, inner[0] / WIDTH, inner[1] / height))
    start = 4.0 if left == _LABELS else left
    axes.set_title(
        shortened(panel.title, LONGEST_TITLE), loc="left", x=(start - left) / inner[0], y=1.0, pad=9.0, parse_math=False
    )
    axes.set_xlabel(panel.x_label, parse_math=False)
    axes.xaxis.set_label_coords(0.5, -24.0 / inner[1])
    axes.yaxis.set_label_coords(-(left - 12.0) / inner[0], 0.5)
    return left, _TOP, WIDTH - _RIGHT, height - _BOTTOM


def _fill_xy(panel: XY, marks: Artists) -> tuple[float, float, float, float]:
    from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, ScalarFormatter, StrMethodFormatter

    axes = marks.axes
    frame = _place(axes, panel, LOW_HEIGHT if panel.low else HEIGHT, _LEFT)
    axes.set_ylabel(panel.y_label, parse_math=False)
    axes.set_xlim(*panel.x_range())
    axes.set_ylim(*panel.y_range())
    steps = [1, 2, 5, 10] if panel.whole else [1, 2, 2.5, 5, 10]
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=panel.whole, steps=steps))
    if panel.ticks:
        axes.xaxis.set_major_locator(FixedLocator([place for place, _ in panel.ticks]))
        axes.xaxis.set_major_formatter(FixedFormatter([word for _, word in panel.ticks]))
    else:
        axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_major_locator(MaxNLocator(3 if panel.low else 5, steps=[1, 2, 2.5, 5, 10]))
    # Each tick says its number in full: a common factor would stand above the axis, where the title is.
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:.6g}"))
    if panel.moment is not None:
        marks.add(axes.axvline(panel.moment, color=SOFT, linewidth=0.9))
    for band in panel.bands:
        _band(band, marks)
    for bars in panel.bars:
        _bars(bars, marks)
    if panel.level is not None:
        level, told = panel.level
        marks.add(axes.axhline(level, color=SOFT, linewidth=1.1, linestyle=(0, (2, 3))))
        transform = axes.get_yaxis_transform()
        marks.add(axes.text(1.0, level, told, transform=transform, ha="right", va="bottom", size=9.0, parse_math=False))
    for line in panel.lines:
        _line(line, marks)
    return frame


def _line(line: Line, marks: Artists) -> None:
    x, y, colour = _numbers(line.x), _numbers(line.y), COLOURS[line.colour]
    known = [(float(f"{a:.5g}"), float(f"{b:.5g}")) for a, b in zip(x, y, strict=True) if math.isfinite(a + b)]
    lone = _lone(x, y)
    marked = None if line.style in ("points", "marked") else lone
    style = {"points": "", "dashed": (0, (4, 3))}.get(line.style, "-")
    (artist,) = marks.axes.plot(
        x, y, color=colour, linestyle=style, linewidth=1.3 if line.style == "dashed" else 1.8,
        clip_on=line.style != "marked", marker="o" if marked is None or lone else "", markevery=marked,
        markersize=5.0 if line.style == "marked" else 6.0, markeredgewidth=0.0,
        drawstyle="steps-pre" if line.style == "step" else "default",
    )  # fmt: skip
    marks.add(artist, line.name, values=known)


def _lone(x: Sequence[float], y: Sequence[float]) -> list[int]:
    """Points between two gaps, which no line would show."""
    known = [False, *(math.isfinite(a + b) for a, b in zip(x, y, strict=True)), False]
    return [row - 1 for row in range(1, len(known) - 1) if known[row] and not known[row - 1] | known[row + 1]]


def _band(band: Band, marks: Artists) -> None:
    area = marks.axes.fill_between(
        _numbers(band.x), _numbers(band.low), _numbers(band.high), color=COLOURS[band.colour],
        alpha=0.16 if band.faint else 0.3, linewidth=0.0,
    )  # fmt: skip
    marks.add(area, band.name)


def _bars(bars: Bars, marks: Artists) -> None:
    for left, right, height in zip(bars.edges[:-1], bars.edges[1:], _numbers(bars.heights), strict=True):
        if math.isfinite(height):
            (bar,) = marks.axes.bar(
                left, height, (right - left) * 0.94, align="edge", color=COLOURS[bars.colour], alpha=0.8
            )
            marks.add(bar, bars.name, f"{number(left)} to {number(right)}: {number(height)}")


def _fill_dots(panel: Dots, marks: Artists) -> tuple[float, float, float, float]:
    from matplotlib.ticker import MaxNLocator

    axes, rows = marks.axes, max(len(panel.rows), 1)
    each = _ROW + 5.0 * max(len(panel.series) - 2, 0)
    frame = _place(axes, panel, _TOP + _BOTTOM + each * rows, _LABELS)
    axes.set_xlim(*panel.x_range())
    axes.set_ylim(rows - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    names = [shortened(name, LONGEST_NAME) for name in without_common_start(panel.rows)]
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.grid(visible=False, axis="y")
    if panel.reference is not None:
        marks.add(axes.axvline(panel.reference, color=SOFT, linewidth=1.1, linestyle=(0, (2, 3))))
    for order, (series, colour, dots) in enumerate(panel.series):
        shift = (order - (len(panel.series) - 1) / 2) * min(7.0, each / max(len(panel.series), 1)) / each
        for position, (row, dot) in enumerate(zip(panel.rows, dots, strict=True)):
            _dot(dot, (series, row), COLOURS[colour], position + shift, marks)
    return frame


def _dot(dot: Dot, names: tuple[str, str], colour: str, y: float, marks: Artists) -> None:
    if dot.value is None or not math.isfinite(dot.value):
        return
    axes, (series, row) = marks.axes, names
    low, high = axes.get_xlim()
    told = number(dot.value) + (f" ({number(dot.low)} to {number(dot.high)})" if dot.low is not None else "")
    if dot.low is not None and dot.high is not None and dot.high >= low and dot.low <= high:
        ends = [min(max(float(end), low), high) for end in (dot.low, dot.high)]
        marks.add(axes.plot(ends, [y, y], color=colour, linewidth=1.7, alpha=0.75)[0], series)
    shape = "o" if low <= dot.value <= high else ">" if dot.value > high else "<"
    x = min(max(dot.value, low), high)
    (artist,) = axes.plot([x], [y], shape, color=colour, markersize=7.0, markeredgewidth=0.0, clip_on=False)
    marks.add(artist, series, f"{row}, {series}: {told}")


def _numbers(values: Sequence[Number]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


def without_common_start(names: Sequence[str]) -> list[str]:
    """Names without the machine they all share."""
    starts = {name.partition("/")[0] for name in names}
    if len(names) > 1 and len(starts) == 1 and all("/" in name for name in names):
        return [name.partition("/")[2] for name in names]
    return list(names)


def shortened(name: str, longest: int) -> str:
    """A name that fits: its middle gives way, because beginnings and ends tell names apart."""
    return name if len(name) <= longest else f"{name[: longest - 10]}…{name[-9:]}"


def _svg(figure: "Figure") -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", dpi=_UNITS_PER_INCH, transparent=True)
    return text.getvalue()


def _pixels(figure: "Figure") -> np.ndarray:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    assert isinstance(figure.canvas, FigureCanvasAgg)
    canvas: Any = figure.canvas
    figure.set_dpi(PIXELS_PER_UNIT * _UNITS_PER_INCH)
    figure.patch.set_visible(True)  # white paper; the page has its own
    canvas.draw()
    figure.patch.set_visible(False)
    figure.set_dpi(_UNITS_PER_INCH)
    return np.array(canvas.buffer_rgba())[..., :3]
