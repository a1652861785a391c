"""Are the commands set-points, or measured values under that name? Do columns hold each other's values?

A set-point stands exactly still on a plateau and is exactly zero at rest; a measured value trembles around both, and
the current of the drive comes before it instead of after it. Interchanged are a current that stands like a DC link, a
voltage that works like a current, and an axis that obeys the command of another.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from crossfeed.schema import facts_of
from crossfeed.windows.audits.subject import (
    AXES,
    Case,
    Finding,
    Signal,
    Subject,
    command_of,
    drive_of,
    finding,
    inside_groups,
    is_bus,
    signals_of,
)
from crossfeed.windows.audits.units import electric_balance

# On real logs with both columns, set-points repeat exactly on 58 % or more of the plateau rows and measured values on
# 30 % or less; of the rows next to zero 98 % against 59 % are exactly zero. A spindle set-point always repeats; the
# feed of one axis changes all the time on a contour, so both signs must agree before a feed is accused.
SPINDLE_PLATEAU, FEED_PLATEAU, FEED_REST = 0.6, 0.4, 0.7
NEXT_TO_ZERO = 0.003
FEWEST_ROWS = 30
LONGEST_LAG, CLEAR_LAG = 5, 0.4
# A DC link stands between these volts and hardly moves; a voltage that never leaves the second range is no supply.
LINK_VOLTS, LINK_MOVES = (100.0, 1200.0), 0.25
NO_SUPPLY_VOLTS = 20.0
# An axis follows its own feed at least so well, and another one better by at least so much, before we speak.
RESPONSE, MARGIN = 0.3, 0.2


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


def is_drive_command(signal: Signal) -> bool:
    """Whether a signal is the commanded speed or feed of a drive."""
    return signal.role == "command" and facts_of(signal.quantity or "").is_speed


def check_commands(case: Case) -> Iterator[Finding]:
    """Report commands that tremble like measurements, or that the drive answers before they are given."""
    for subject in case.subjects:
        for command in subject.measured:
            if is_drive_command(command) and command.spread > 0:
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
    yield finding(
        "measured command",
        f"{subject.label}: {command.name}",
        "; ".join(evidence),
        {"exact_on_plateaus": still.plateau, "zero_at_rest": still.rest, "lag_rows": lag.rows if lag else 0},
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


def check_swapped(case: Case) -> Iterator[Finding]:
    """Report columns that hold each other's values."""
    for subject in case.subjects:
        yield from _supply(subject)
        yield from _axes(subject)


def _stands_like_a_link(signal: Signal) -> bool:
    middle = float(np.median(np.abs(signal.finite)))
    return LINK_VOLTS[0] <= middle <= LINK_VOLTS[1] and signal.spread <= LINK_MOVES * middle


def _supply(subject: Subject) -> Iterator[Finding]:
    links = [s for s in subject.of("voltage") if is_bus(s) and s.spread > 0 and s.reach < NO_SUPPLY_VOLTS]
    standing = [s for s in subject.of("current", "sensor") if s.spread > 0 and _stands_like_a_link(s)]
    for voltage in links:
        partner = next((current for current in standing if drive_of(current) == drive_of(voltage)), None)
        if partner is not None:
            standing.remove(partner)
            yield finding(
                "supply and current swapped",
                f"{subject.label}: {voltage.name} and {partner.name}",
                f"{voltage.name} never exceeds {voltage.reach:.3g} V while {partner.name} stands at "
                f"{np.median(partner.finite):.4g} +- {partner.spread / 4:.2g} A{_evidence(subject, voltage, partner)}",
                {"voltage_reach": voltage.reach, "current_median": float(np.median(partner.finite))},
            )
        else:
            yield finding(
                "no link",
                f"{subject.label}: {voltage.name}",
                f"never exceeds {voltage.reach:.3g} V; the link of a drive has {LINK_VOLTS[0]:g} V or more",
                {"voltage_reach": voltage.reach},
            )
    for current in standing:
        yield finding(
            "current like a link",
            f"{subject.label}: {current.name}",
            f"stands at {np.median(current.finite):.4g} +- {current.spread / 4:.2g} A at work and at rest",
        )


def _evidence(subject: Subject, voltage: Signal, current: Signal) -> str:
    """Whether the power of the drive agrees: motor voltage times the suspect 'voltage' is the measured power."""
    drive = drive_of(voltage)
    if drive is None:
        return ""
    for power in signals_of(subject, drive, "power"):
        for motor in (s for s in signals_of(subject, drive, "voltage") if not is_bus(s)):
            as_named, as_held = electric_balance(power, motor, current), electric_balance(power, motor, voltage)
            if as_named and as_held and abs(np.log(as_held.ratio)) < abs(np.log(as_named.ratio)):
                return (
                    f"; {power.name} is {as_held.ratio:.2g} times {motor.name} x {voltage.name}, but "
                    f"{as_named.ratio:.2g} times {motor.name} x {current.name}"
                )
    return ""


def _axes(subject: Subject) -> Iterator[Finding]:
    """Friction turns with the direction of motion: the force of an axis follows the sign of its own feed."""
    feeds = {axis: command for axis in AXES if (command := command_of(subject, axis)) is not None}
    for quantity in ("torque", "current"):
        found = {axis: signals_of(subject, axis, quantity, "sensor") for axis in feeds}
        signals = {axis: of_axis[0] for axis, of_axis in found.items() if of_axis}
        answer = {(axis, feed): _follows(signals[axis], feeds[feed]) for axis in signals for feed in feeds}
        for one, two in combinations(signals, 2):
            crossed, straight = (answer[one, two], answer[two, one]), (answer[one, one], answer[two, two])
            if min(crossed) > RESPONSE and all(c > s + MARGIN for c, s in zip(crossed, straight, strict=True)):
                yield finding(
                    "axes swapped",
                    f"{subject.label}: {signals[one].name} and {signals[two].name}",
                    f"{signals[one].name} follows {feeds[two].name} ({crossed[0]:.2f}) better than "
                    f"{feeds[one].name} ({straight[0]:.2f}), and {signals[two].name} follows {feeds[one].name} "
                    f"({crossed[1]:.2f}) better than {feeds[two].name} ({straight[1]:.2f})",
                    {"crossed": min(crossed), "straight": max(straight)},
                )


def _follows(signal: Signal, feed: Signal) -> float:
    """Correlation of a force-like signal with the direction in which the axis is told to move."""
    known = np.isfinite(signal.values) & np.isfinite(feed.values)
    direction = np.sign(feed.values[known])
    values = signal.values[known]
    if len(values) < 30 or direction.std() == 0 or values.std() == 0:
        return 0.0
    return float(abs(np.corrcoef(values, direction)[0, 1]))
