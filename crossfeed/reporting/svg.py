"""Panels as SVG for the page: colours come from the style sheet, so light, dark and paper need no second drawing.

All texts pass through `escape`. A panel is 360 units wide, so that on a phone its letters keep their size; wider
screens put several panels side by side.
"""

import json
import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from crossfeed.reporting.numbers import number
from crossfeed.reporting.panels import XY, Band, Bars, Dot, Dots, Line, Number, Panel, tick_text, ticks

WIDTH = 360.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 10.0, 26.0, 40.0
_LABELS, _ROW = 150.0, 21.0
LONGEST_NAME = 20


def draw(panel: Panel) -> Markup:
    """One panel."""
    return _draw_xy(panel) if isinstance(panel, XY) else _draw_dots(panel)


class _Axes:
    """Where a value lies on the drawing."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], frame: tuple[float, float, float, float]
    ) -> None:
        self.x, self.y = x, y
        self.left, self.top, self.right, self.bottom = frame

    def at_x(self, value: float) -> float:
        return self.left + (value - self.x[0]) / (self.x[1] - self.x[0]) * (self.right - self.left)

    def at_y(self, value: float) -> float:
        return self.bottom - (value - self.y[0]) / (self.y[1] - self.y[0]) * (self.bottom - self.top)


def _draw_xy(panel: XY) -> Markup:
    height = 150.0 if panel.low else 230.0
    axes = _Axes(panel.x_range(), panel.y_range(), (_LEFT, _TOP, WIDTH - _RIGHT, height - _BOTTOM))
    parts = [_grid_x(axes, panel.x_label, height, panel.whole), _grid_y(axes, panel.y_label, 3 if panel.low else 5)]
    if panel.moment is not None:
        x = axes.at_x(panel.moment)
        parts.append(f'<line class="moment" x1="{x:.1f}" x2="{x:.1f}" y1="{axes.top}" y2="{axes.bottom}"/>')
    parts += [_band(band, axes) for band in panel.bands]
    parts += [_bars(bars, axes) for bars in panel.bars]
    if panel.level is not None:
        parts.append(_level(panel.level, axes))
    parts += [_line(line, axes) for line in panel.lines]
    return _svg(panel.title, height, parts, "xy", axes)


def _svg(title: str, height: float, parts: Sequence[str], kind: str, axes: _Axes) -> Markup:
    frame = json.dumps([axes.left, axes.top, axes.right, axes.bottom, *axes.x])
    return Markup(
        f'<svg class="panel {kind}" viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-label="{escape(title)}" '
        f'data-frame="{frame}"><text class="title" x="{_LEFT if kind == "xy" else 8:.0f}" y="15">{escape(title)}</text>'
        f"{''.join(parts)}</svg>"
    )


def _grid_x(axes: _Axes, label: str, height: float, whole: bool = False) -> str:
    marks = ticks(*axes.x, 5, whole)
    step = marks[1] - marks[0] if len(marks) > 1 else 1.0
    parts = []
    for mark in marks:
        x = axes.at_x(mark)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{axes.top:.1f}" y2="{axes.bottom:.1f}"/>')
        parts.append(f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{axes.bottom + 14:.1f}">'
                     f"{tick_text(mark, step)}</text>")  # fmt: skip
    middle = (axes.left + axes.right) / 2
    parts.append(
        f'<text class="label" text-anchor="middle" x="{middle:.1f}" y="{height - 8:.1f}">{escape(label)}</text>'
    )
    return "".join(parts)


def _grid_y(axes: _Axes, label: str, wanted: int) -> str:
    marks = ticks(*axes.y, wanted)
    step = marks[1] - marks[0] if len(marks) > 1 else 1.0
    parts = []
    for mark in marks:
        y = axes.at_y(mark)
        parts.append(f'<line class="grid" x1="{axes.left}" x2="{axes.right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" text-anchor="end" x="{axes.left - 5}" y="{y + 3.5:.1f}">{tick_text(mark, step)}</text>'
        )
    middle = (axes.top + axes.bottom) / 2
    parts.append(
        f'<text class="label" text-anchor="middle" transform="translate(11 {middle:.1f}) rotate(-90)">'
        f"{escape(label)}</text>"
    )
    return "".join(parts)


def _level(level: tuple[float, str], axes: _Axes) -> str:
    y = axes.at_y(level[0])
    return (
        f'<line class="level" x1="{axes.left}" x2="{axes.right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="remark" text-anchor="end" x="{axes.right}" y="{y - 4:.1f}">{escape(level[1])}</text>'
    )


def _points(x: Sequence[Number], y: Sequence[Number], axes: _Axes) -> list[list[tuple[float, float]]]:
    """Stretches without a gap, in drawing units."""
    stretches: list[list[tuple[float, float]]] = [[]]
    for one, other in zip(x, y, strict=True):
        if one is None or other is None or not math.isfinite(one) or not math.isfinite(other):
            stretches.append([])
        else:
            stretches[-1].append((axes.at_x(one), axes.at_y(other)))
    return [stretch for stretch in stretches if stretch]


def _line(line: Line, axes: _Axes) -> str:
    stretches = _points(line.x, line.y, axes)
    values = [
        [x, y] for x, y in zip(line.x, line.y, strict=True) if x is not None and y is not None and math.isfinite(y)
    ]
    data = f'data-name="{escape(line.name)}" data-values="{escape(json.dumps(values))}"'
    parts = [f'<g class="series c{line.colour}" {data}>']
    for stretch in stretches:
        if line.style == "points" or len(stretch) == 1:
            parts += [f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in stretch]
        if line.style != "points" and len(stretch) > 1:
            path = _staircase(stretch) if line.style == "step" else "L".join(f"{x:.1f},{y:.1f}" for x, y in stretch)
            parts.append(f'<path class="line {line.style}" d="M{path}"/>')
    return "".join([*parts, "</g>"])


def _staircase(stretch: Sequence[tuple[float, float]]) -> str:
    """A bin carries its value from the moment before to its label."""
    first_x, first_y = stretch[0]
    path = f"{first_x:.1f},{first_y:.1f}"
    for x, y in stretch[1:]:
        path += f"V{y:.1f}H{x:.1f}"
    return path


def _band(band: Band, axes: _Axes) -> str:
    above, below = _points(band.x, band.high, axes), _points(band.x, band.low, axes)
    parts = [f'<g class="series c{band.colour}" data-name="{escape(band.name)}">']
    for upper, lower in zip(above, below, strict=False):
        path = "L".join(f"{x:.1f},{y:.1f}" for x, y in (*upper, *reversed(lower)))
        parts.append(f'<path class="band{" faint" if band.faint else ""}" d="M{path}Z"/>')
    return "".join([*parts, "</g>"])


def _bars(bars: Bars, axes: _Axes) -> str:
    parts = [f'<g class="series c{bars.colour}" data-name="{escape(bars.name)}">']
    floor = axes.at_y(0.0)
    for left, right, height in zip(bars.edges[:-1], bars.edges[1:], bars.heights, strict=True):
        if height is None:
            continue
        top, start = axes.at_y(height), axes.at_x(left)
        parts.append(
            f'<rect class="bar" x="{start + 0.5:.1f}" y="{min(top, floor):.1f}" '
            f'width="{max(axes.at_x(right) - start - 1.0, 0.5):.1f}" height="{abs(floor - top):.1f}">'
            f"<title>{number(left)} to {number(right)}: {number(height)}</title></rect>"
        )
    return "".join([*parts, "</g>"])


def _draw_dots(panel: Dots) -> Markup:
    each = _ROW if len(panel.series) < 3 else _ROW + 5.0 * (len(panel.series) - 2)
    height = _TOP + _BOTTOM + each * len(panel.rows)
    axes = _Axes(panel.x_range(), (0.0, float(len(panel.rows) or 1)), (_LABELS, _TOP, WIDTH - 14.0, height - _BOTTOM))
    parts = [_grid_x(axes, panel.x_label, height)]
    if panel.reference is not None:
        x = axes.at_x(panel.reference[0])
        parts.append(f'<line class="level" x1="{x:.1f}" x2="{x:.1f}" y1="{axes.top}" y2="{axes.bottom}"/>')
    labels = without_common_start(panel.rows)
    for position, name in enumerate(panel.rows):
        y = axes.top + (position + 0.5) * each
        shown = shortened(labels[position])
        parts.append(
            f'<text class="tick" text-anchor="end" x="{_LABELS - 8}" y="{y + 3.5:.1f}">{escape(shown)}'
            f"<title>{escape(name)}</title></text>"
        )
        for order, (series, colour, dots) in enumerate(panel.series):
            shift = (order - (len(panel.series) - 1) / 2) * min(7.0, each / max(len(panel.series), 1))
            parts.append(_dot(dots[position], series, name, colour, y + shift, axes))
    return _svg(panel.title, height, parts, "dots", axes)


def without_common_start(names: Sequence[str]) -> list[str]:
    """Names without the machine they all share."""
    starts = {name.partition("/")[0] for name in names}
    if len(names) > 1 and len(starts) == 1 and all("/" in name for name in names):
        return [name.partition("/")[2] for name in names]
    return list(names)


def shortened(name: str) -> str:
    """A name that fits beside a diagram: its middle gives way, because beginnings and ends tell names apart."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 10]}…{name[-9:]}"


def _dot(dot: Dot, series: str, row: str, colour: int, y: float, axes: _Axes) -> str:
    if dot.value is None or not math.isfinite(dot.value):
        return ""
    low, high = axes.x
    told = number(dot.value) + (f" ({number(dot.low)} to {number(dot.high)})" if dot.low is not None else "")
    parts = [
        f'<g class="series c{colour}" data-name="{escape(series)}"><title>{escape(f"{row}, {series}: {told}")}</title>'
    ]
    if dot.low is not None and dot.high is not None and dot.high >= low and dot.low <= high:
        left, right = (axes.at_x(min(max(value, low), high)) for value in (dot.low, dot.high))
        parts.append(f'<path class="whisker" d="M{left:.1f},{y:.1f}H{right:.1f}"/>')
    x = axes.at_x(min(max(dot.value, low), high))
    if low <= dot.value <= high:
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.4"/>')
    else:
        turn = 1 if dot.value > high else -1
        parts.append(f'<path class="dot" d="M{x:.1f},{y - 4:.1f}l{5 * turn},4l{-5 * turn},4z"/>')
    return "".join([*parts, "</g>"])
