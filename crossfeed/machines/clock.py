"""Every clock becomes whole microseconds: sums of 0.002 drift into the wrong second, integers do not."""

import re

import polars as pl

from crossfeed.errors import ConfigError, LogError
from crossfeed.machines.declaration import MICROSECONDS
from crossfeed.schema import conversion

_FORMATS = (
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.fZ",
    "%Y-%m-%d %H:%M",
    "%d.%m.%Y %H:%M:%S%.f",
    "%Y/%m/%d %H:%M:%S%.f",
)
# The end of the year 9999: no machine counts further, and differences of such times still fit into 64 bits.
_LATEST = 253_402_300_800 * MICROSECONDS


def clock_from_text(stamps: pl.Series, written: str | None = None) -> pl.Series:
    """Time stamps as microseconds since 1970; what does not parse is null."""
    texts = stamps.str.strip_chars()
    clock = pl.Series(stamps.name, [None] * len(stamps), dtype=pl.Int64)
    for pattern in (written,) if written else _FORMATS:
        if "%z" in pattern:
            parsed = texts.str.to_datetime(pattern, time_unit="us", strict=False).dt.convert_time_zone("UTC")
        else:
            parsed = texts.str.strptime(pl.Datetime("us"), pattern, strict=False)
        clock = clock.zip_with(clock.is_not_null(), parsed.dt.timestamp("us"))
        if not clock.null_count():
            break
    return clock.alias(stamps.name)


def clock_from_numbers(values: pl.Series, step: str) -> pl.Series:
    """Counts of a time unit such as `ms` or `2 ms` as microseconds; what is no finite number is null."""
    scaled = values.cast(pl.Float64) * (seconds(step) * MICROSECONDS)
    return scaled.set(~scaled.is_finite() | (scaled.abs() > _LATEST), None).round().cast(pl.Int64, strict=False)


def seconds(step: str) -> float:
    """The length of a time step such as `s`, `ms` or `2 ms`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)?\s*([^\d\s].*)", step)
    if not found:
        raise ConfigError(
            f"'{step}' is no time step.", expected="a time unit such as s, ms, min, or a multiple such as 2 ms"
        )
    return float(found[1] or 1) * conversion(found[2].strip(), "s").scale


def require_clock(clock: pl.Series, where: str, column: str) -> None:
    """Refuse a log in which no row at all has a time."""
    if len(clock) and clock.null_count() == len(clock):
        raise LogError(
            f"No entry of the column '{column}' in {where} can be read as a time.",
            expected="time stamps such as 2024-03-12 08:16:30, or numbers with a declared unit",
            remedy="State the unit or the format of the column in the mapping.",
        )
