"""Figures as data, before anyone decides how they are drawn, and the one style in which all of them are drawn."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, Protocol

from crossfeed.errors import StorageError
from crossfeed.files import atomic_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

# Colours that stay apart for colour-blind readers and in print.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.0,
    "legend.frameon": False,
    "agg.path.chunksize": 10_000,
}
_DOTS_PER_INCH = 144  # of pictures in files
_FORMATS = ("png", "svg", "pdf")

Number = float | int | None
# The colour number of history and truth: black on paper, white on a dark screen.
INK = 6


class EstimateWithBounds(Protocol):
    """An estimate that may have bounds."""

    @property
    def estimate(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


@dataclass(frozen=True)
class Line:
    """A line, a staircase, points, or a line with a mark on each point; a null ends a line and starts another."""

    name: str
    x: Sequence[Number]
    y: Sequence[Number]
    colour: int = 0
    style: Literal["line", "dashed", "step", "points", "marked"] = "line"


@dataclass(frozen=True)
class Band:
    """The area between two edges."""

    name: str
    x: Sequence[Number]
    low: Sequence[Number]
    high: Sequence[Number]
    colour: int = 0
    faint: bool = False


@dataclass(frozen=True)
class Bars:
    """Bars that stand side by side from `edges[i]` to `edges[i + 1]`."""

    name: str
    edges: Sequence[float]
    heights: Sequence[Number]
    colour: int = 0


@dataclass(frozen=True)
class XY:
    """A diagram of numbers against numbers; `level` draws a horizontal line, `moment` a vertical one."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...] = ()
    bands: tuple[Band, ...] = ()
    bars: tuple[Bars, ...] = ()
    level: tuple[float, str] | None = None
    moment: float | None = None
    from_zero: bool = False
    low: bool = False
    # Words in place of numbers along the x axis: (place, word).
    ticks: tuple[tuple[float, str], ...] = ()
    # What lies above leaves the picture, so that one line cannot flatten all others.
    highest: float | None = None

    def x_range(self) -> tuple[float, float]:
        return _range([*self._x_values(), *(edge for bars in self.bars for edge in bars.edges)])

    def _x_values(self) -> list[Number]:
        return [x for line in self.lines for x in line.x] + [x for band in self.bands for x in band.x]

    @property
    def whole(self) -> bool:
        """Whether the x axis counts things: epochs, rows, channels."""
        values = [x for x in self._x_values() if x is not None]
        return bool(values) and not self.bars and all(float(x).is_integer() for x in values)

    def y_range(self) -> tuple[float, float]:
        shown: list[Number] = []
        for line in self.lines:
            shown += line.y
        for band in self.bands:
            shown += [*band.low, *band.high]
        for bars in self.bars:
            shown += [*bars.heights, 0.0]
        shown += [self.level[0]] if self.level else []
        shown += [0.0] if self.from_zero else []
        low, high = _range(shown)
        high = min(high, self.highest) if self.highest is not None else high
        margin = 0.06 * (high - low)
        return (low if self.from_zero and low == 0.0 else low - margin), high + margin


@dataclass(frozen=True)
class Dot:
    """One estimate with an optional interval."""

    value: Number
    low: Number = None
    high: Number = None

    @classmethod
    def of(cls, interval: "EstimateWithBounds | None") -> "Dot":
        """An interval as a dot; none where there is no interval."""
        return cls(None) if interval is None else cls(interval.estimate, interval.low, interval.high)

    @classmethod
    def over(cls, values: Iterable[Number]) -> "Dot":
        """The mean of what is known, with its range."""
        known = [value for value in values if value is not None]
        return cls(fmean(known), min(known), max(known)) if known else cls(None)


@dataclass(frozen=True)
class Dots:
    """Named rows with one dot per series: what to use for channels, candidates and conditions."""

    title: str
    x_label: str
    rows: tuple[str, ...]
    series: tuple[tuple[str, int, tuple[Dot, ...]], ...]
    # Where a line stands to which all rows compare.
    reference: float | None = None
    # Values beyond these limits are drawn at the edge with an arrow, so that one row cannot squeeze all others.
    limits: tuple[float, float] | None = None

    @classmethod
    def single_series(
        cls, title: str, x_label: str, name: str, dots: Mapping[str, Dot], colour: int = 0, *,
        reference: float | None = None, limits: tuple[float, float] | None = None,
    ) -> "Dots":  # fmt: skip
        """One series, given by row."""
        return cls(title, x_label, tuple(dots), ((name, colour, tuple(dots.values())),), reference, limits)

    def x_range(self) -> tuple[float, float]:
        shown: list[Number] = [self.reference] if self.reference is not None else []
        for _, _, dots in self.series:
            for dot in dots:
                shown += [dot.value, dot.low, dot.high]
        low, high = _range(shown)
        margin = 0.05 * (high - low)
        low, high = low - margin, high + margin
        return (max(low, self.limits[0]), min(high, self.limits[1])) if self.limits else (low, high)


Panel = XY | Dots


@dataclass(frozen=True)
class Figure:
    """Small panels under one caption; `legend` names the series, `stacked` panels stand one above the other."""

    name: str
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[tuple[str, int, str], ...] = ()
    stacked: int = 1
    first_is_main: bool = False  # and the others stand around it


def _range(values: Iterable[Number]) -> tuple[float, float]:
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-12):
        away = 0.5 * abs(low) or 0.5
        return low - away, high + away
    return low, high


def printed_unit(unit: str) -> str:
    """A unit as people write it."""
    return {"degC": "°C", "degF": "°F"}.get(unit, unit)


@contextmanager
def house_style(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """What is drawn inside has the house style, with changes of its own."""
    import matplotlib as mpl
    from cycler import cycler

    style: dict[Any, Any] = {**_STYLE, "axes.prop_cycle": cycler(color=COLOURS), **(changes or {})}
    with mpl.rc_context(style):
        yield


@contextmanager
def new_figure(width: float, height: float) -> "Iterator[Drawn]":
    """A figure of this size in inches, in the house style, drawn without a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawn

    with house_style():
        figure = Drawn(figsize=(width, height))
        FigureCanvasAgg(figure)
        yield figure


def save_figure(figure: "Drawn", path: Path | str) -> None:
    """Write a figure as PNG, SVG or PDF; the file appears whole or not at all."""
    file_format = Path(path).suffix.removeprefix(".").lower()
    if file_format not in _FORMATS:
        raise StorageError(
            f"A figure cannot be written as '{Path(path).name}'.",
            expected=f"a name that ends in {', '.join('.' + known for known in _FORMATS)}",
        )
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format=file_format, dpi=_DOTS_PER_INCH)
