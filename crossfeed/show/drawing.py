"""Panels drawn by matplotlib: each as SVG for a page, and all of a figure together for a notebook or a file.

A panel is 420 units wide, so that its letters can be read on a phone; wider screens put several side by side.
"""

import io
import json
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from crossfeed.show.figures import COLOURS, XY, Band, Bars, Dot, Dots, Figure, Line, Number, Panel, house_style
from crossfeed.show.tables import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

INK, SOFT, RULE = "#1b2430", "#56616e", "#dfe4ea"
# Colours on paper, and what the style sheet calls them.
_NAMES = {INK: "--ink", SOFT: "--soft", RULE: "--rule"} | {colour: f"--c{n}" for n, colour in enumerate(COLOURS)}
WIDTH, HEIGHT, LOW_HEIGHT = 420.0, 250.0, 150.0
LONGEST_NAME, LONGEST_TITLE = 22, 58
_UNITS_PER_INCH = 72.0
_LETTER = 6.0  # the width of one in a caption
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


@contextmanager
def panel_drawer() -> "Iterator[PanelDrawer]":
    """Draw any number of panels in the house style."""
    with house_style(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the page has fonts of its own
        yield PanelDrawer()


class PanelDrawer:
    """Keeps its axes and empties them, because making axes costs more than filling them; draws equal panels once."""

    def __init__(self) -> None:
        self._axes: dict[type[Panel], Axes] = {}
        self._drawn: dict[str, Markup] = {}

    def draw(self, panel: Panel) -> Markup:
        """One panel as an element of a page."""
        import matplotlib as mpl

        key = repr(panel)
        if key in self._drawn:
            return self._drawn[key]
        if type(panel) not in self._axes:
            self._axes[type(panel)] = _new_axes()
        axes = self._axes[type(panel)]
        marks = Artists(axes)
        height = _height(panel)
        figure: Any = axes.figure
        figure.set_size_inches(WIDTH / _UNITS_PER_INCH, height / _UNITS_PER_INCH)
        _frame(axes, panel, (0.0, 0.0), (WIDTH, height))
        frame = _fill(panel, marks)
        # Names inside a drawing must not meet those of another one on the same page.
        mpl.rcParams["svg.hashsalt"] = key
        text = io.StringIO()
        figure.savefig(text, format="svg", dpi=_UNITS_PER_INCH, transparent=True)
        css_class = "xy" if isinstance(panel, XY) else "dots"
        self._drawn[key] = inline(text.getvalue(), css_class, panel.title, (*frame, *axes.get_xlim()), marks.tags)
        marks.clear()
        return self._drawn[key]


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


def draw(figure: Figure) -> "Drawn":
    """All panels of a figure as one drawing of matplotlib, for a notebook or a file of its own."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawn

    across = columns_of(figure)
    ordered = [panel for level in range(figure.stacked) for panel in figure.panels[level :: figure.stacked]]
    rows = [ordered[start : start + across] for start in range(0, len(ordered), across)]
    heights = [max(map(_height, row)) for row in rows]
    legend_rows = math.ceil(len(figure.legend) / (2 * across))
    caption = textwrap.wrap(figure.caption, int(WIDTH * across / _LETTER))
    head, foot = 14.0 * len(caption) + 10.0, 16.0 * legend_rows + 8.0
    whole = (WIDTH * across, sum(heights) + head + foot)
    with house_style(_STYLE):
        drawn = Drawn(figsize=(whole[0] / _UNITS_PER_INCH, whole[1] / _UNITS_PER_INCH), dpi=110)
        FigureCanvasAgg(drawn)
        place = (4.0 / whole[0], 1.0 - 4.0 / whole[1])
        drawn.text(*place, "\n".join(caption), color=INK, va="top", parse_math=False)
        top = whole[1] - head
        for row, height in zip(rows, heights, strict=True):
            for position, panel in enumerate(row):
                axes = drawn.add_axes((0.1, 0.1, 0.8, 0.8))
                _frame(axes, panel, (WIDTH * position, top - _height(panel)), whole)
                _fill(panel, Artists(axes))
            top -= height
        if figure.legend:
            drawn.legend(*legend_keys(figure), loc="lower center", ncols=2 * across)
    return drawn


def columns_of(figure: Figure) -> int:
    """How many panels stand side by side; stacked ones share a column."""
    panels = len(figure.panels)
    return (2 if panels == 4 else min(3, panels)) if figure.stacked == 1 else panels // figure.stacked


def legend_keys(figure: Figure) -> tuple[list[Any], list[str]]:
    """A key for each series of the legend, and its name."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for _, number_of_colour, style in figure.legend:
        colour = COLOURS[number_of_colour]
        if style == "band":
            handles.append(Patch(color=colour, alpha=0.3, linewidth=0))
        elif style == "points":
            handles.append(Line2D([], [], color=colour, linestyle="", marker="o", markersize=4))
        else:
            handles.append(Line2D([], [], color=colour, linestyle="--" if style == "dashed" else "-", linewidth=2.0))
    return handles, [name.replace("$", r"\$") for name, _, _ in figure.legend]


def _new_axes() -> "Axes":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawn

    figure = Drawn(figsize=(WIDTH / _UNITS_PER_INCH, HEIGHT / _UNITS_PER_INCH))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.1, 0.1, 0.8, 0.8), facecolor="none")
    figure.patch.set_visible(False)
    return axes


def _place(axes: "Axes", panel: Panel, left: float) -> tuple[float, float, float, float]:
    """Title and labels of a panel, each in its place, so that nothing must be measured; gives the frame."""
    height = _height(panel)
    inner = (WIDTH - left - _RIGHT, height - _TOP - _BOTTOM)
    start = 4.0 if left == _LABELS else left
    axes.set_title(
        shortened(panel.title, LONGEST_TITLE), loc="left", x=(start - left) / inner[0], y=1.0, pad=9.0, parse_math=False
    )
    axes.set_xlabel(panel.x_label, parse_math=False)
    axes.xaxis.set_label_coords(0.5, -24.0 / inner[1])
    axes.yaxis.set_label_coords(-(left - 12.0) / inner[0], 0.5)
    return left, _TOP, WIDTH - _RIGHT, height - _BOTTOM


def _height(panel: Panel) -> float:
    if isinstance(panel, XY):
        return LOW_HEIGHT if panel.low else HEIGHT
    return _TOP + _BOTTOM + _row_height(panel) * max(len(panel.rows), 1)


def _row_height(panel: Dots) -> float:
    return _ROW + 5.0 * max(len(panel.series) - 2, 0)


def _frame(axes: "Axes", panel: Panel, corner: tuple[float, float], whole: tuple[float, float]) -> None:
    """Put the axes of a panel where they belong on a figure of this size; the corner is its lower left one."""
    left, height = _LEFT if isinstance(panel, XY) else _LABELS, _height(panel)
    axes.set_position(
        (
            (corner[0] + left) / whole[0], (corner[1] + _BOTTOM) / whole[1],
            (WIDTH - left - _RIGHT) / whole[0], (height - _TOP - _BOTTOM) / whole[1],
        )
    )  # fmt: skip


def _fill(panel: Panel, marks: Artists) -> tuple[float, float, float, float]:
    return _fill_xy(panel, marks) if isinstance(panel, XY) else _fill_dots(panel, marks)


def _fill_xy(panel: XY, marks: Artists) -> tuple[float, float, float, float]:
    from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, ScalarFormatter, StrMethodFormatter

    axes = marks.axes
    frame = _place(axes, panel, _LEFT)
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
    each = _row_height(panel)
    frame = _place(axes, panel, _LABELS)
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


def series_tag(name: str, hint: str, values: Sequence[Sequence[float]]) -> str:
    """The tag that opens the group of one series."""
    data = f' data-values="{escape(json.dumps(values))}"' if values else ""
    title = f"<title>{escape(hint)}</title>" if hint else ""
    return f'<g class="series" data-name="{escape(name)}"{data}>{title}'


def inline(file: str, css_class: str, title: str, frame: Sequence[float], series: Sequence[str]) -> Markup:
    """A whole file as one element; group s0, s1... of the file becomes the series with that number.

    `frame` says where the axes lie and what they span: left, top, right, bottom, first and last x.
    """
    size = re.search(r'viewBox="0 0 (\S+) (\S+)"', file)
    assert size is not None
    body = file[file.index('<g id="figure_1"') : file.rindex("</svg>")]
    body = re.sub(r' id="(?!s\d+"|[pm][0-9a-f]+")[^"]*"', "", body).replace("xlink:href", "href")
    body = re.sub(r' (d|x|y|transform|width|height)="([^"]*)"', _rounded, body)
    body = re.sub(r' style="([^"]*)"', _coloured, body)
    body = re.sub(r">\s+<", "><", body)
    body = re.sub(r'<g id="s(\d+)">', lambda found: series[int(found[1])], body)
    box = f"0 0 {float(size[1]):.0f} {float(size[2]):.0f}"
    data = json.dumps([round(value, 4) for value in frame])
    return Markup(
        f'<svg class="panel {css_class}" viewBox="{box}" role="img" aria-label="{escape(title)}" data-frame="{data}">'
        f"{body}</svg>"
    )


def _rounded(found: re.Match[str]) -> str:
    text = re.sub(r"\s+", " ", re.sub(r"(\d+\.\d)\d+", r"\1", found[2])).strip()
    return "" if text.startswith("rotate(-0 ") else f' {found[1]}="{text}"'


def _coloured(found: re.Match[str]) -> str:
    text = re.sub(r"#[0-9a-f]{6}", lambda colour: f"var({_NAMES.get(colour[0], '--ink')})", found[1])
    return f' style="{re.sub(r"font-family: [^;]*;? ?", "", text)}"'
