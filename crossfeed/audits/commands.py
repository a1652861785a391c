"""Are the commands set-points, or measured values under that name?

A set-point stands exactly still on a plateau and is exactly zero at rest; a measured value trembles around both, and
the current of the drive comes before it instead of after it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from crossfeed.audits.finding import Finding
from crossfeed.audits.subject import Case, Signal, Subject, command_of, drive_of, inside_groups, signals_of

# On real logs with both columns, set-points repeat exactly on 58 % or more of the plateau rows and measured values on
# 30 % or less; of the rows next to zero 98 % against 59 % are exactly zero. A spindle set-point always repeats; the
# feed of one axis changes all the time on a contour, so both signs must agree before a feed is accused.
SPINDLE_PLATEAU, FEED_PLATEAU, FEED_REST = 0.6, 0.4, 0.7
NEXT_TO_ZERO = 0.003
FEWEST_ROWS = 30
LONGEST_LAG, CLEAR_LAG = 5, 0.4


class Stillness(NamedTuple):
    """A command that does not change: shares of exact repeats and exact zeros, and the rows behind them."""

    plateau: float
    plateau_rows: int
    rest: float
    rest_rows: int


class Lag(NamedTuple):
    """When the drive answers a start of the command: rows later (negative: earlier), and how clearly."""

    rows: int
    correlation: float


def stillness(command: Signal, inside: np.ndarray) -> Stillness:
    """Measure exact repeats on plateaus and exact zeros at rest."""
    values, size = command.values, command.reach
    step = np.abs(np.diff(values))
    plateau = inside & (step < 0.01 * size) & (np.abs(values[1:]) > 0.05 * size)
    rest = inside & (np.abs(values[1:]) < NEXT_TO_ZERO * size)
    exact, zero = step <= 1e-6 * size, np.abs(values[1:]) <= 1e-6 * size
    return Stillness(_share(exact, plateau), int(plateau.sum()), _share(zero, rest), int(rest.sum()))


def response_lag(command: Signal, response: Signal, inside: np.ndarray) -> Lag | None:
    """The lag at which the response rises when the command rises; starts only, for a drive works until it stops."""
    change, answer = _rises(command, inside), _rises(response, inside)
    lags = []
    for lag in range(-LONGEST_LAG, LONGEST_LAG + 1):
        one = change[max(0, -lag) : len(change) - max(0, lag)]
        two = answer[max(0, lag) : len(answer) - max(0, -lag)]
        finite = np.isfinite(one) & np.isfinite(two)
        if finite.sum() > FEWEST_ROWS and one[finite].std() > 0 and two[finite].std() > 0:
            lags.append(Lag(lag, float(np.corrcoef(one[finite], two[finite])[0, 1])))
    return max(lags, key=lambda item: item.correlation) if lags else None


def check_commands(case: Case) -> Iterator[Finding]:
    """Report commands that tremble like measurements, or that the drive answers before they are given."""
    for subject in case.subjects:
        for command in subject.measured:
            if command.role == "command" and command.quantity in ("rotational speed", "feed") and command.spread > 0:
                yield from _command(subject, command)


def _command(subject: Subject, command: Signal) -> Iterator[Finding]:
    inside = inside_groups(subject, len(command.values))
    still = stillness(command, inside)
    trembles = still.plateau_rows >= FEWEST_ROWS and still.plateau < (
        SPINDLE_PLATEAU if command.quantity == "rotational speed" else FEED_PLATEAU
    )
    if command.quantity == "feed":
        trembles &= still.rest_rows >= FEWEST_ROWS and still.rest < FEED_REST
    lag = _best_lag(subject, command, inside)
    answered_early = lag is not None and lag.rows < 0 and lag.correlation > CLEAR_LAG
    if not trembles and not answered_early:
        return
    evidence = [
        f"{still.plateau:.0%} of {still.plateau_rows} plateau rows repeat exactly",
        f"{still.rest:.0%} of {still.rest_rows} rows next to zero are exactly zero",
    ]
    if lag is not None:
        evidence.append(f"the drive answers {lag.rows:+d} rows after a start (correlation {lag.correlation:.2f})")
    yield Finding(
        severity="warning",
        subject=f"{subject.label}: {command.name}",
        measured="; ".join(evidence),
        meaning="this looks like a measured speed, not a set-point: as an input it tells the model part of the answer, "
        "and nobody knows it in advance when asking 'what if'",
        cause="the log holds actual values under the name of the command",
        remedy="Log the set-point, or plan the commands from the NC program; otherwise say so beside every result.",
        numbers={"exact_on_plateaus": still.plateau, "zero_at_rest": still.rest, "lag_rows": lag.rows if lag else 0},
    )


def _best_lag(subject: Subject, command: Signal, inside: np.ndarray) -> Lag | None:
    drive = drive_of(command)
    if drive is None or command_of(subject, drive) is not command:
        return None
    responses = [*signals_of(subject, drive, "torque", "sensor"), *signals_of(subject, drive, "current", "sensor")]
    found = [lag for response in responses if (lag := response_lag(command, response, inside)) is not None]
    return max(found, key=lambda lag: lag.correlation) if found else None


def _rises(signal: Signal, inside: np.ndarray) -> np.ndarray:
    """By how much the signal moves away from its usual level from row to row, 0 where it comes back."""
    level = 0.0 if signal.role == "command" else float(np.median(signal.finite))
    return np.where(inside, np.maximum(0.0, np.diff(np.abs(signal.values - level))), np.nan)


def _share(hits: np.ndarray, rows: np.ndarray) -> float:
    return float(hits[rows].mean()) if rows.any() else 1.0
