"""Every clock becomes whole microseconds: sums of 0.002 drift into the wrong second, integers do not."""

import difflib
import re
from zoneinfo import available_timezones

import numpy as np
import polars as pl

from crossfeed.errors import ConfigError, LogError
from crossfeed.machines.declaration import MICROSECONDS
from crossfeed.schema import conversion

# Dates and times in the usual orders; what follows the seconds (fractions, offsets) is read apart from them.
_FORMATS = (
    "%Y-%m-%d %H:%M:%S%.f",
    "%d.%m.%y %H:%M:%S%.f",
    "%d.%m.%Y %H:%M:%S%.f",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%d.%m.%Y %H:%M",
    "%Y.%m.%d %H:%M:%S%.f",
    "%Y%m%d %H%M%S%.f",
    "%Y%m%d %H:%M:%S%.f",
)
_OFFSET = r"(Z|z|UTC|[+-]\d{2}:?\d{2})$"
_HOUR, _MINUTE = 3600 * MICROSECONDS, 60 * MICROSECONDS
# The end of the year 9999: no machine counts further, and differences of such times still fit into 64 bits.
_LATEST = 253_402_300_800 * MICROSECONDS


def clock_of(stamps: pl.Series, unit: str | None, written: str | None = None, zone: str | None = None) -> pl.Series:
    """Stamps of any type as microseconds: counts of a unit, stored times, or text; what is no time is null."""
    if unit:
        return clock_from_numbers(stamps, unit)
    if stamps.dtype not in (pl.Datetime, pl.Date):
        return clock_from_text(stamps.cast(pl.String), written, zone)
    clock = stamps.cast(pl.Datetime("us")) if stamps.dtype == pl.Date else stamps
    micro = clock.dt.timestamp("us")
    # Stored times without a zone are local ones of the zone that is named.
    stored = getattr(clock.dtype, "time_zone", None)
    return micro if stored is not None or zone is None else utc_from_local(micro, zone)


def clock_from_text(stamps: pl.Series, written: str | None = None, zone: str | None = None) -> pl.Series:
    """Time stamps as microseconds since 1970; what does not parse is null.

    A stamp with an offset such as +01:00 says itself how far it is from UTC; the others are local times of `zone`, or
    taken as they are.
    """
    texts = stamps.str.strip_chars()
    if written is not None and "%z" in written:
        parsed = texts.str.to_datetime(written, time_unit="us", strict=False).dt.convert_time_zone("UTC")
        return parsed.dt.timestamp("us").alias(stamps.name)
    offsets = None
    if written is None:
        offsets = texts.str.extract(_OFFSET)
        texts = texts.str.replace(_OFFSET, "").str.strip_chars()
        texts = texts.str.replace(r"^(\d[\d./-]*\d)[Tt_]", "${1} ").str.replace(r"(:\d\d),(\d+)$", "${1}.${2}")
    clock = pl.Series(stamps.name, [None] * len(stamps), dtype=pl.Int64)
    for pattern in (written,) if written else _FORMATS:
        parsed = texts.str.strptime(pl.Datetime("us"), pattern, strict=False)
        clock = clock.zip_with(clock.is_not_null(), parsed.dt.timestamp("us"))
        if not clock.null_count():
            break
    clock = clock.set(clock.abs() > _LATEST, None)
    local = clock if zone is None else utc_from_local(clock, zone)
    if offsets is None or offsets.null_count() == len(offsets):
        return local.alias(stamps.name)
    sign = pl.when(offsets.str.starts_with("-")).then(-1).otherwise(1)
    digits = offsets.str.replace(r"(?i)^(z|utc)$", "+00:00").str.replace_all(r"[+:-]", "")
    ahead = pl.select(
        sign * (digits.str.slice(0, 2).cast(pl.Int64) * 3600 + digits.str.slice(2, 2).cast(pl.Int64) * 60)
    ).to_series()
    return local.zip_with(offsets.is_null(), clock - ahead * MICROSECONDS).alias(stamps.name)


def utc_from_local(clock: pl.Series, zone: str) -> pl.Series:
    """Local times of a zone as UTC; the hour that October repeats is told apart by the order of the rows."""
    check_zone(zone)
    local = clock.cast(pl.Datetime("us"))
    first, second = (
        local.dt.replace_time_zone(zone, ambiguous=which, non_existent="null").dt.convert_time_zone("UTC")
        for which in ("earliest", "latest")
    )
    early, late = (found.dt.timestamp("us") for found in (first, second))
    twice = (early != late).fill_null(False).to_numpy()
    if not twice.any():
        return early.alias(clock.name)
    known = early.is_not_null().to_numpy()
    return early.zip_with(~pl.Series(_second_pass(early.to_numpy(), late.to_numpy(), twice, known)), late)


def _second_pass(early: np.ndarray, late: np.ndarray, twice: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which rows of a repeated hour belong to its second pass: those after the clock was put back."""
    second = np.zeros(len(twice), dtype=bool)
    rows = np.flatnonzero(known)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], twice[rows], [False]]).astype(int)))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        block = rows[begin:end]
        back = np.flatnonzero(np.diff(early[block]) < -_MINUTE)
        if len(back):
            second[block[back[0] + 1 :]] = True
            continue
        # The clock was not put back inside this block: it is the pass that follows on from its neighbours.
        before = early[block[0]] - early[rows[begin - 1]] if begin > 0 else np.inf
        after = early[rows[end]] - late[block[-1]] if end < len(rows) else np.inf
        second[block] = after < before
    return second


def check_zone(zone: str) -> None:
    """Refuse what is no time zone, with the nearest name that is one."""
    if zone in (known := available_timezones()):
        return
    near = difflib.get_close_matches(zone, sorted(known), n=2, cutoff=0.4)
    raise ConfigError(
        f"There is no time zone '{zone}'" + (f"; did you mean {' or '.join(near)}?" if near else "."),
        expected="a name such as Europe/Berlin, America/Chicago or UTC",
    )


def put_back_in_autumn(clock: pl.Series) -> pl.Series:
    """Rows before which a local clock went back by up to an hour in the small hours of a Sunday in autumn."""
    before = clock.shift(1).cast(pl.Datetime("us"))
    night = before.dt.month().is_in([10, 11]) & (before.dt.weekday() == 7) & before.dt.hour().is_in([0, 1, 2, 3])
    return ((-clock.diff()).is_between(_MINUTE, _HOUR) & night).fill_null(False)


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


def require_clock(clock: pl.Series, where: str, column: str, stamps: pl.Series | None = None) -> None:
    """Refuse a log in which no row at all has a time."""
    if len(clock) and clock.null_count() == len(clock):
        first = first_unread(clock, stamps)
        raise LogError(
            f"No entry of the column '{column}' in {where} can be read as a time"
            + (f"; the first is '{first}'." if first else "."),
            expected="time stamps such as 2024-03-12 08:16:30, or numbers with a declared unit",
            remedy="State the unit or the format of the column in the mapping.",
        )


def first_unread(clock: pl.Series, stamps: pl.Series | None) -> str:
    """The first entry that is no time, in its own words; empty when there is none."""
    if stamps is None or not clock.null_count():
        return ""
    unread = stamps.filter(clock.is_null() & stamps.is_not_null())
    return str(unread[0])[:60] if len(unread) else ""
