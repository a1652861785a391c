"""What figures of all rooms share: one quiet style, no display needed, files written whole."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossfeed.atomic import atomic_file
from crossfeed.errors import StorageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
_FORMATS = ("png", "svg", "pdf")


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
def new_figure(width: float, height: float) -> "Iterator[Figure]":
    """A figure of this size in inches, in the house style, drawn without a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        yield figure


def save_figure(figure: "Figure", path: Path | str) -> None:
    """Write a figure as PNG, SVG or PDF; the file appears whole or not at all."""
    file_format = Path(path).suffix.removeprefix(".").lower()
    if file_format not in _FORMATS:
        raise StorageError(
            f"A figure cannot be written as '{Path(path).name}'.",
            expected=f"a name that ends in {', '.join('.' + known for known in _FORMATS)}",
        )
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format=file_format)
