"""Does time run as a table claims: forwards, once, and one period from row to row inside a group?"""

from collections.abc import Iterator

import numpy as np

from crossfeed.show.tables import plural
from crossfeed.windows.audits.subject import Case, Finding, Severity, Signal, Subject

# A step counts as one period when it is off by less than this share; stamps written in whole milliseconds pass.
TOLERANCE = 0.1
# So many equal rows one after the other are no coincidence on sensors that otherwise rarely repeat a value.
FROZEN_ROWS, RARELY = 10, 0.3


def check_clock(case: Case) -> Iterator[Finding]:
    """Report clocks that stand, jump or run backwards, and loggers that froze."""
    for subject in case.subjects:
        if subject.time is None or subject.period is None:
            yield Finding(
                severity="note",
                subject=subject.label,
                measured="the table has no clock column",
                meaning="gaps and repeated rows cannot be seen",
                cause="the log was exported without time stamps",
                remedy="Export the time column as well; rows are taken as evenly spaced.",
            )
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
    texts = _texts(period, longest, subject.keyed)
    for fault, (severity, meaning, cause, remedy) in texts.items():
        if counts[fault]:
            measured = f"{plural(counts[fault], f'{fault} step')} of the clock; {where[fault]}"
            numbers = {"count": counts[fault], "period_s": period, "longest_step_s": longest}
            yield Finding(severity, subject.label, measured, meaning, cause, remedy, numbers)


def _texts(period: float, longest: float, keyed: bool) -> dict[str, tuple[Severity, str, str, str]]:
    return {
        "no number": (
            "violation",
            "rows without a time cannot be put in order",
            "empty or damaged time stamps",
            "Drop these rows before the table is made.",
        ),
        "backwards": (
            "violation",
            "rows are not in the order in which they happened: a window shows the future first",
            "files joined in the wrong order, a reset of the clock or the change to winter time",
            "Sort by time inside each session, and start a new session where the clock was reset.",
        ),
        "repeated": (
            "violation",
            "the same moment stands in the table twice",
            "overlapping exports, or stamps rounded to less than the sampling period",
            "Drop duplicate stamps (keep the first), or compute the time from the controller's cycle counter.",
        ),
        "gap": (
            "violation" if keyed else "warning",
            f"neighbouring rows are up to {longest:.6g} s apart instead of {period:.6g} s: a window over the gap "
            "shows a jump that never happened",
            "the logger paused inside a session",
            "Start a new session at every gap, or resample so that missing rows are present as absent values.",
        ),
        "uneven": (
            "warning",
            f"rows follow each other faster than every {period:.6g} s in places, so a horizon means different times",
            "jitter of the logger, or files of different sampling rates in one table",
            "Resample to one period with crossfeed ingest.",
        ),
    }


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
        yield Finding(
            severity="warning",
            subject=subject.label,
            measured=f"{int(lengths[long].sum())} rows in {int(long.sum())} stretches repeat every sensor exactly; "
            f"the longest has {int(lengths.max())} rows, the first begins at row {row}",
            meaning="values were carried forward or the logger froze; a model learns that the machine stands still",
            cause="gaps filled with the last value without a limit, or a logger that stood still",
            remedy="Leave such stretches absent; carry values forward for two seconds at most.",
            numbers={"rows": int(lengths[long].sum()), "longest": int(lengths.max())},
        )


def _repeats(values: np.ndarray) -> float:
    """How often a value is exactly the one before it."""
    return float((np.diff(values) == 0).mean()) if len(values) > 1 else 1.0


# Channels that say nothing: never measured, never moving, or not a number.


def check_dead(case: Case) -> Iterator[Finding]:
    """Report channels without values, with infinite values, with one value, and commands with holes."""
    for subject in case.subjects:
        for signal in subject.signals:
            if signal.role != "other":
                yield from _dead(signal, f"{subject.label}: {signal.name}")


def _dead(signal: Signal, where: str) -> Iterator[Finding]:
    rows, missing = len(signal.values), int(np.isnan(signal.values).sum())
    if signal.unreadable:
        yield Finding(
            severity="warning",
            subject=where,
            measured=f"{signal.unreadable} of {rows} cells hold text instead of numbers",
            meaning="these cells count as absent here; other programs may read the whole column as text",
            cause="error words of the logger, units inside cells, or a second header line",
            remedy="Ingest the log with crossfeed, which counts and reports such cells, or clean the column.",
            numbers={"cells": signal.unreadable, "rows": rows},
        )
    infinite = int(np.isinf(signal.values).sum())
    if infinite:
        yield Finding(
            severity="violation",
            subject=where,
            measured=f"{infinite} of {rows} values are infinite",
            meaning="one of them in the train rows makes every statistic infinite",
            cause="overflow or a division by zero in the logger",
            remedy="Declare a valid range for the channel; what lies outside becomes absent.",
            numbers={"infinite": infinite, "rows": rows},
        )
    if missing == rows:
        command = signal.role == "command"
        yield Finding(
            severity="violation" if command else "note",
            subject=where,
            measured=f"none of {rows} rows has a value",
            meaning="no window can be made without its commands"
            if command
            else "the machine does not show this channel",
            cause="the column was not mapped" if command else "the sensor does not exist here, which is allowed",
            remedy="Map the column that holds this command, or use a schema without it."
            if command
            else "Nothing, if that is so; it stays absent (mask 0) and is never imputed.",
            numbers={"rows": rows},
        )
        return
    if signal.role == "command" and missing:
        yield Finding(
            severity="warning",
            subject=where,
            measured=f"{missing} of {rows} rows ({missing / rows:.1%}) have no command",
            meaning="every window that touches one of them is left out",
            cause="the command was logged only when it changed, or the log has holes",
            remedy="Hold a set-point until the next one when ingesting.",
            numbers={"missing": missing, "rows": rows},
        )
    if len(signal.finite) > 1 and signal.finite.min() == signal.finite.max():
        value = float(signal.finite[0])
        yield Finding(
            severity="warning",
            subject=where,
            measured=f"all {len(signal.finite)} values are {value:g}",
            meaning="a model cannot learn what this command does"
            if signal.role == "command"
            else "a model cannot learn anything from it, and a scale of zero breaks many normalisers",
            cause="a signal that was not wired or logged" if value == 0 else "a parameter, not a measurement",
            remedy="Look in the mapping for a column that holds this command; a constant is right where the machine "
            "does not have it."
            if signal.role == "command"
            else "Leave the channel out (absent), unless the machine really never moves it.",
            numbers={"value": value},
        )
