"""Find the clock of an unknown log: time stamps, a day and a time of day, or a number that counts."""

import re
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from crossfeed.machines.clock import clock_from_text, put_back_in_autumn, seconds
from crossfeed.machines.declaration import MICROSECONDS
from crossfeed.machines.proposal import COLUMNS, split_unit

_NAMES = COLUMNS["clock"]
_TIME_OF_DAY = r"^\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?$"
_OFFSET = re.compile(r"(Z|UTC|[+-]\d{2}:?\d{2})$", re.IGNORECASE)
_ENOUGH = 0.9
_SAMPLE = 2_000
# Seconds, milliseconds and microseconds since 1970, for any time between 2001 and 2100.
_SINCE_1970 = {"s": (1e9, 4.2e9), "ms": (1e12, 4.2e12), "us": (1e15, 4.2e15)}


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
            offset = bool(_OFFSET.search(str(frame[name].drop_nulls()[0]).strip()))
            told = "time stamps with their offset from UTC" if offset else "time stamps without a time zone"
            found = FoundClock({"column": name}, (name,), _step(clock), told, local=not offset)
            return found if offset else _with_zone(found, clock_from_text(frame[name]))
    days = [name for name in texts if _mostly(_at_midnight(beginning[name]), beginning[name])]
    hours = [name for name in texts if beginning[name].str.strip_chars().str.contains(_TIME_OF_DAY).mean() == 1.0]
    if days and hours:
        clock = clock_from_text(beginning[days[0]] + " " + beginning[hours[0]])
        if _mostly(clock, beginning[hours[0]]):
            told = "the day and the time of day stand in two columns"
            entries, needed = {"column": hours[0], "date": days[0]}, (hours[0], days[0])
            found = FoundClock(entries, needed, _step(clock), told, local=True)
            return _with_zone(found, clock_from_text(frame[days[0]] + " " + frame[hours[0]]))
    for name in names:
        if name.strip() and frame[name].dtype.is_numeric() and (counted := _counting(name, frame[name])) is not None:
            return counted
    return None


def _with_zone(found: FoundClock, clock: pl.Series) -> FoundClock:
    """A clock that is put back in an autumn night is a local one with summer time; whose, a person must say."""
    if not put_back_in_autumn(clock.drop_nulls()).any():
        return found
    reason = f"{found.reason}; goes back as when summer time ends: is this your time zone?"
    return replace(found, entries={**found.entries, "zone": "Europe/Berlin"}, reason=reason, local=False, sure=False)


def _rank(name: str) -> int:
    """Columns that are called like a clock come first."""
    bare = re.sub(r"[^a-zäöü]+", " ", split_unit(name)[0].lower()).split()
    whole = " ".join(bare)
    if whole in _NAMES:
        return _NAMES.index(whole)
    return len(_NAMES) + (0 if any(word in _NAMES for word in bare) else 1)


def _mostly(clock: pl.Series, cells: pl.Series) -> bool:
    told = len(cells) - cells.null_count()
    return told > 0 and (len(clock) - clock.null_count()) >= _ENOUGH * told


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
    unit, reason, sure = _unit(name, numbers, usual)
    step = usual * seconds(unit)
    return FoundClock({"column": name, "unit": unit}, (name,), step, reason, sure=sure and called)


def _unit(name: str, numbers: np.ndarray, usual: float) -> tuple[str, str, bool]:
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
