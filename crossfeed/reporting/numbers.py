"""How numbers are written: as many digits as matter, a dash for what is not defined."""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossfeed.reporting.blocks import CellFormat

MISSING = "–"
LIGHTS = {"good": "● yes", "fair": "◐ with care", "bad": "○ no", "unknown": "· not known"}


def number(value: float | int | None) -> str:
    """Three digits after the point between a thousandth and a thousand, else three digits that matter."""
    if value is None or isinstance(value, bool) or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    if 0.001 <= abs(value) < 1000:
        digits = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
        return f"{value:.{digits}f}".replace("-", "−")
    return f"{value:,.0f}".replace("-", "−") if 1000 <= abs(value) < 1e6 else f"{value:.2e}".replace("-", "−")


def count(value: float | int | None) -> str:
    """A whole number with thousands separated."""
    return MISSING if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    """A share as per cent."""
    percent = math.nan if value is None else 100 * value
    return f"{percent:.1f} %" if math.isfinite(percent) else MISSING


def interval(value: Mapping[str, Any] | None) -> str:
    """An estimate with its bounds, or with its spread over seeds; alone where there are too few runs for any."""
    told, doubt = interval_parts(value, number)
    return told if not doubt else f"{told} {doubt}" if doubt.startswith("±") else f"{told} ({doubt})"


def interval_parts(value: Mapping[str, Any] | None, write: Callable[[Any], str]) -> tuple[str, str]:
    """The same in two parts, for two lines of a narrow cell: the estimate, and its bounds or its spread."""
    if value is None or value.get("estimate") is None:
        return MISSING, ""
    told = write(value["estimate"])

    def alike(other: float) -> str:
        return _alike(other, told) if write is number else write(other)

    if value.get("spread") is not None:
        return told, f"± {alike(value['spread'])}"
    if value.get("low") is None or value.get("high") is None:
        return told, ""
    return told, f"{alike(value['low'])} to {alike(value['high'])}"


def _alike(value: float, neighbour: str) -> str:
    """A bound or a spread with as many decimals as the estimate beside it; a far larger one is written as usual."""
    decimals = len(neighbour.partition(".")[2])
    if "e" in neighbour or not decimals or not math.isfinite(value) or abs(value) >= 1000:
        return number(value)
    return f"{value:.{decimals}f}".replace("-", "−")


def seconds(value: float | None) -> str:
    """A duration in the unit people use for it."""
    if value is None:
        return MISSING
    if value < 0.1:
        return f"{1000 * value:.1f} ms"
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def short_hash(value: Any) -> str:
    """The first twelve characters of a hash."""
    return str(value)[:12] if value else MISSING


def written(value: Any, cell_format: "CellFormat") -> str:
    """One cell as text."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return MISSING
    if cell_format == "text":
        return str(value)
    if cell_format == "light":
        return LIGHTS.get(str(value), str(value))
    if cell_format == "hash":
        return short_hash(value)
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return interval(value)
    return {"count": count, "share": share, "seconds": seconds}.get(cell_format, number)(value)
