"""The clocks of logs, and how to find the clock of an unknown one.

Every clock becomes whole microseconds: sums of 0.002 drift into the wrong second, integers do not. The clock of an
unknown log is its time stamps, a day and a time of day, or a number that counts.
"""

import difflib
import re
from dataclasses import dataclass, replace
from zoneinfo import available_timezones

import numpy as np
import polars as pl

from crossfeed.errors import ConfigError, LogError
from crossfeed.logs.declaration import MICROSECONDS
from crossfeed.logs.proposal import COLUMNS, split_unit
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
_NAMES = COLUMNS["clock"]
_TIME_OF_DAY = r"^\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?$"
_STATED_OFFSET = re.compile(r"(Z|UTC|[+-]\d{2}:?\d{2})$", re.IGNORECASE)
_ENOUGH = 0.9
_SAMPLE = 2_000
# Seconds, milliseconds and microseconds since 1970, for any time between 2001 and 2100.
_SINCE_1970 = {"s": (1e9, 4.2e9), "ms": (1e12, 4.2e12), "us": (1e15, 4.2e15)}


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


def _second_pass(early: np.ndarray, late: np.ndarray, twice: np.ndarray, readable: np.ndarray) -> np.ndarray:
    """Which rows of a repeated hour belong to its second pass: those after the clock was put back."""
    second = np.zeros(len(twice), dtype=bool)
    rows = np.flatnonzero(readable)
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
    if zone in (zones := available_timezones()):
        return
    near = difflib.get_close_matches(zone, sorted(zones), n=2, cutoff=0.4)
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
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)?\s*([^\d\s].*)", step)
    if not match:
        raise ConfigError(
            f"'{step}' is no time step.", expected="a time unit such as s, ms, min, or a multiple such as 2 ms"
        )
    return float(match[1] or 1) * conversion(match[2].strip(), "s").scale


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


@dataclass(frozen=True, slots=True)
class FoundClock:
    """The entries for `time:` in a mapping, the columns it needs, the usual step in seconds, and the reasons."""

    entries: dict[str, str]
    columns: tuple[str, ...]
    step: float | None
    reason: str
    local: bool = False
    sure: bool = True


def find_clock(frame: pl.DataFrame) -> FoundClock | None:
    """The most likely clock of a log, or None."""
    names, beginning = sorted(frame.columns, key=_rank), frame.head(_SAMPLE)
    texts = [name for name in names if frame[name].dtype == pl.String]
    for name in names:
        if frame[name].dtype in (pl.Datetime, pl.Date):
            step = _step(frame[name].cast(pl.Datetime("us")).dt.timestamp("us"))
            return FoundClock({"column": name}, (name,), step, "stored as a time", local=True)
    for name in texts:
        clock = clock_from_text(beginning[name])
        if _mostly(clock, beginning[name]):
            offset = bool(_STATED_OFFSET.search(str(frame[name].drop_nulls()[0]).strip()))
            reason = "time stamps with their offset from UTC" if offset else "time stamps without a time zone"
            clock_found = FoundClock({"column": name}, (name,), _step(clock), reason, local=not offset)
            return clock_found if offset else _with_zone(clock_found, clock_from_text(frame[name]))
    days = [name for name in texts if _mostly(_at_midnight(beginning[name]), beginning[name])]
    hours = [name for name in texts if beginning[name].str.strip_chars().str.contains(_TIME_OF_DAY).mean() == 1.0]
    if days and hours:
        clock = clock_from_text(beginning[days[0]] + " " + beginning[hours[0]])
        if _mostly(clock, beginning[hours[0]]):
            reason = "the day and the time of day stand in two columns"
            entries, needed = {"column": hours[0], "date": days[0]}, (hours[0], days[0])
            clock_found = FoundClock(entries, needed, _step(clock), reason, local=True)
            return _with_zone(clock_found, clock_from_text(frame[days[0]] + " " + frame[hours[0]]))
    for name in names:
        if name.strip() and frame[name].dtype.is_numeric() and (counted := _counting(name, frame[name])) is not None:
            return counted
    return None


def _with_zone(described: FoundClock, clock: pl.Series) -> FoundClock:
    """A clock that is put back in an autumn night is a local one with summer time; whose, a person must say."""
    if not put_back_in_autumn(clock.drop_nulls()).any():
        return described
    reason = f"{described.reason}; goes back as when summer time ends: is this your time zone?"
    return replace(
        described, entries={**described.entries, "zone": "Europe/Berlin"}, reason=reason, local=False, sure=False
    )


def _rank(name: str) -> int:
    """Columns that are called like a clock come first."""
    bare = re.sub(r"[^a-zäöü]+", " ", split_unit(name)[0].lower()).split()
    whole = " ".join(bare)
    if whole in _NAMES:
        return _NAMES.index(whole)
    return len(_NAMES) + (0 if any(word in _NAMES for word in bare) else 1)


def _mostly(clock: pl.Series, cells: pl.Series) -> bool:
    filled = len(cells) - cells.null_count()
    return filled > 0 and (len(clock) - clock.null_count()) >= _ENOUGH * filled


def _at_midnight(cells: pl.Series) -> pl.Series:
    return clock_from_text(cells.str.strip_chars() + " 00:00:00")


def _step(clock: pl.Series) -> float | None:
    steps = clock.drop_nulls().diff().drop_nulls()
    positive = steps.filter(steps > 0)
    middle = positive.median()
    return float(middle) / MICROSECONDS if isinstance(middle, int | float) else None


def _counting(name: str, values: pl.Series) -> FoundClock | None:
    """A number that never goes back, or hardly ever, and that is called like a clock or counts evenly."""
    numbers = values.drop_nulls().to_numpy().astype(np.float64)
    steps = np.diff(numbers[np.isfinite(numbers)])
    if len(steps) < 2 or (steps >= 0).mean() < 0.99 or (steps > 0).mean() < 0.5:
        return None
    called = _rank(name) <= len(_NAMES)
    forward = steps[steps > 0]
    usual = float(np.median(forward))
    even = float((np.abs(forward - usual) < 0.1 * usual).mean())
    if not called and even < 0.9:
        return None
    unit, reason, sure = _unit_of_count(name, numbers, usual)
    step = usual * seconds(unit)
    return FoundClock({"column": name, "unit": unit}, (name,), step, reason, sure=sure and called)


def _unit_of_count(name: str, numbers: np.ndarray, usual: float) -> tuple[str, str, bool]:
    stated = split_unit(name)[1]
    if stated in ("s", "ms", "us", "min"):
        return stated, "its name states the unit", True
    middle = float(np.median(numbers))
    for unit, (low, high) in _SINCE_1970.items():
        if low <= middle <= high:
            return unit, f"counts {unit} since 1970", True
    if usual == 1.0 and name.strip().lower() == "cycle":
        return "2 ms", "counts the cycles of a control: of 2 ms, as Siemens writes them?", False
    if usual >= 5.0:
        return "ms", f"grows by {usual:g} from row to row, as milliseconds do", False
    return "s", f"grows by {usual:g} from row to row", usual != 1.0
