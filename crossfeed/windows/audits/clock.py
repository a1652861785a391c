"""Does time run as a table claims: forwards, once, one period from row to row inside a group? Do channels say anything?

A channel says nothing that was never measured, never moves or is no number.
"""

from collections.abc import Iterator

import numpy as np

from crossfeed.show.tables import plural
from crossfeed.windows.audits.subject import Case, Finding, Signal, Subject, finding

# A step counts as one period when it is off by less than this share; stamps written in whole milliseconds pass.
TOLERANCE = 0.1
# So many equal rows one after the other are no coincidence on sensors that otherwise rarely repeat a value.
FROZEN_ROWS, RARELY = 10, 0.3


def check_clock(case: Case) -> Iterator[Finding]:
    """Report clocks that stand, jump or run backwards, and loggers that froze."""
    for subject in case.subjects:
        if subject.time is None or subject.period is None:
            yield finding("no clock", subject.label, "the table has no clock column")
        else:
            yield from _steps(subject, subject.time, subject.period)
        yield from _frozen(subject)


def _steps(subject: Subject, time: np.ndarray, period: float) -> Iterator[Finding]:
    counts = {"no number": 0, "backwards": 0, "repeated": 0, "gap": 0, "uneven": 0}
    where: dict[str, str] = {}
    longest = 0.0
    for group in subject.groups:
        stamps = time[group.start : group.stop]
        steps = np.diff(stamps) / period
        faults = {
            "no number": ~np.isfinite(stamps),
            "backwards": steps < -TOLERANCE,
            "repeated": np.abs(steps) <= TOLERANCE,
            "gap": steps > 1.0 + TOLERANCE,
            "uneven": (steps > TOLERANCE) & (steps < 1.0 - TOLERANCE),
        }
        for fault, hits in faults.items():
            counts[fault] += int(hits.sum())
            if hits.any():
                row = int(np.argmax(hits))
                where.setdefault(fault, f"first in {group.key} at {stamps[row]:.6g} s (row {group.start + row})")
        longest = max(longest, float(np.nanmax(steps, initial=0.0)) * period)
    for fault, count in counts.items():
        if count:
            assumed = fault == "gap" and not subject.keyed
            yield finding(
                f"clock {fault}",
                subject.label,
                f"{plural(count, f'{fault} step')} of the clock; {where[fault]}",
                {"count": count, "period_s": period, "longest_step_s": longest},
                severity="warning" if assumed else None,
                longest=f"{longest:.6g}",
                period=f"{period:.6g}",
            )


def _frozen(subject: Subject) -> Iterator[Finding]:
    """All sensors that are never still repeat their last value together."""
    sensors = [s.values for s in subject.measured if s.role == "sensor" and _repeats(s.values) < RARELY]
    if len(sensors) < 3:
        return
    values = np.stack(sensors, axis=1)
    same = np.zeros(len(values), dtype=bool)
    same[1:] = ((values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))).all(axis=1)
    same[1:] &= np.isfinite(values[1:]).any(axis=1)
    starts = np.zeros(len(values), dtype=bool)
    starts[[group.start for group in subject.groups]] = True
    same &= ~starts
    edges = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(int), [0]])))
    lengths = edges[1::2] - edges[::2]
    long = lengths >= FROZEN_ROWS
    if long.any():
        row = int(edges[::2][long][0])
        yield finding(
            "frozen",
            subject.label,
            f"{int(lengths[long].sum())} rows in {int(long.sum())} stretches repeat every sensor exactly; "
            f"the longest has {int(lengths.max())} rows, the first begins at row {row}",
            {"rows": int(lengths[long].sum()), "longest": int(lengths.max())},
        )


def _repeats(values: np.ndarray) -> float:
    """How often a value is exactly the one before it."""
    return float((np.diff(values) == 0).mean()) if len(values) > 1 else 1.0


def check_dead(case: Case) -> Iterator[Finding]:
    """Report channels without values, with infinite values, with one value, and commands with holes."""
    for subject in case.subjects:
        for signal in subject.signals:
            if signal.role != "other":
                yield from _dead(signal, f"{subject.label}: {signal.name}")


def _dead(signal: Signal, where: str) -> Iterator[Finding]:
    rows, missing = len(signal.values), int(np.isnan(signal.values).sum())
    if cells := int(signal.text.sum()):
        yield finding(
            "text in cells",
            where,
            f"{cells} of {rows} cells hold text instead of numbers",
            {"cells": cells, "rows": rows},
        )
    infinite = int(np.isinf(signal.values).sum())
    if infinite:
        yield finding(
            "infinite", where, f"{infinite} of {rows} values are infinite", {"infinite": infinite, "rows": rows}
        )
    if missing == rows:
        yield finding(f"{signal.role} without values", where, f"none of {rows} rows has a value", {"rows": rows})
        return
    if signal.role == "command" and missing:
        yield finding(
            "command with holes",
            where,
            f"{missing} of {rows} rows ({missing / rows:.1%}) have no command",
            {"missing": missing, "rows": rows},
        )
    if len(signal.finite) > 1 and signal.finite.min() == signal.finite.max():
        value = float(signal.finite[0])
        yield finding(
            f"constant {signal.role}",
            where,
            f"all {len(signal.finite)} values are {value:g}",
            {"value": value},
            cause="a signal that was not wired or logged" if value == 0 else "a parameter, not a measurement",
        )
