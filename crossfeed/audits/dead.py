"""Channels that say nothing: never measured, never moving, or not a number."""

from collections.abc import Iterator

import numpy as np

from crossfeed.audits.finding import Finding
from crossfeed.audits.subject import Case, Signal


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
