"""Panels as PNG files, for papers and slides: the same data as on the page, drawn by matplotlib."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crossfeed.plots import COLOURS, new_figure, save_figure
from crossfeed.reporting.blocks import Figure
from crossfeed.reporting.panels import XY, Dots, Number


def write_figure(figure: Figure, path: Path) -> None:
    """All panels of a figure in one file, at most three side by side; stacked ones share a column."""
    size = figure.stacked
    panels = [panel for level in range(size) for panel in figure.panels[level::size]]
    across = min(3, len(panels)) if size == 1 else len(panels) // size
    down = math.ceil(len(panels) / across)
    heights = [max(_height(panel) for panel in panels[row * across : (row + 1) * across]) for row in range(down)]
    with new_figure(3.7 * across, sum(heights) + 0.3) as drawn:
        axes = list(drawn.subplots(down, across, squeeze=False, height_ratios=heights).flat)
        for panel, ax in zip(panels, axes, strict=False):
            if isinstance(panel, XY):
                _xy(panel, ax)
            else:
                _dots(panel, ax)
        for unused in axes[len(panels) :]:
            unused.set_visible(False)
        _legend(figure, drawn)
        save_figure(drawn, path)


def _height(panel: XY | Dots) -> float:
    if isinstance(panel, XY):
        return 1.7 if panel.low else 2.5
    return 1.0 + 0.24 * max(len(panel.rows), 2)


def _legend(figure: Figure, drawn: Any) -> None:
    if figure.legend:
        handles = [_key(COLOURS[colour], style) for _, colour, style in figure.legend]
        names = [_plain(name) for name, _, _ in figure.legend]
        drawn.legend(handles, names, loc="outside lower center", ncols=min(4, len(names)))


def _key(colour: str, style: str) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if style == "band":
        return Patch(color=colour, alpha=0.3, linewidth=0)
    if style == "points":
        return Line2D([], [], color=colour, linestyle="", marker="o", markersize=4)
    return Line2D([], [], color=colour, linestyle="--" if style == "dashed" else "-", linewidth=2.0)


def _xy(panel: XY, ax: Any) -> None:
    for band in panel.bands:
        low, high = _numbers(band.low), _numbers(band.high)
        alpha = 0.16 if band.faint else 0.3
        ax.fill_between(_numbers(band.x), low, high, color=COLOURS[band.colour], alpha=alpha, linewidth=0)
    for bars in panel.bars:
        widths = [right - left for left, right in zip(bars.edges[:-1], bars.edges[1:], strict=True)]
        ax.bar(
            bars.edges[:-1], _numbers(bars.heights), widths, align="edge", color=COLOURS[bars.colour], edgecolor="white"
        )
    for line in panel.lines:
        x, y, colour = _numbers(line.x), _numbers(line.y), COLOURS[line.colour]
        if line.style == "step":
            ax.step(x, y, where="pre", color=colour)
        elif line.style == "points":
            ax.plot(x, y, "o", color=colour, markersize=3)
        else:
            ax.plot(
                x, y, color=colour, linestyle="--" if line.style == "dashed" else "-", marker="o" if len(x) < 2 else ""
            )
    if panel.level is not None:
        ax.axhline(panel.level[0], color="#777777", linestyle=":", linewidth=1.0)
    if panel.moment is not None:
        ax.axvline(panel.moment, color="#777777", linewidth=0.8)
    ax.set_ylim(*panel.y_range())
    ax.set(title=_plain(panel.title), xlabel=_plain(panel.x_label), ylabel=_plain(panel.y_label))


def _dots(panel: Dots, ax: Any) -> None:
    low, high = panel.x_range()
    for order, (_, colour, dots) in enumerate(panel.series):
        shift = (order - (len(panel.series) - 1) / 2) * 0.28
        for position, dot in enumerate(dots):
            if dot.value is None or not math.isfinite(dot.value):
                continue
            y = position + shift
            if dot.low is not None and dot.high is not None:
                ax.plot([max(dot.low, low), min(dot.high, high)], [y, y], color=COLOURS[colour])
            inside = low <= dot.value <= high
            marker = "o" if inside else (">" if dot.value > high else "<")
            ax.plot(min(max(dot.value, low), high), y, marker, color=COLOURS[colour], markersize=4, clip_on=False)
    if panel.reference is not None:
        ax.axvline(panel.reference[0], color="#777777", linestyle=":", linewidth=1.0)
    ax.set_yticks(range(len(panel.rows)), [_plain(name) for name in panel.rows])
    ax.set_ylim(len(panel.rows) - 0.5, -0.5)
    ax.set_xlim(low, high)
    ax.set(title=_plain(panel.title), xlabel=_plain(panel.x_label))


def _numbers(values: Sequence[Number]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


def _plain(text: str) -> str:
    """Text without the dollar signs that would start a formula."""
    return text.replace("$", r"\$")
