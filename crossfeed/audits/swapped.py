"""Interchanged columns: a current that stands like a DC link, a voltage that works like a current, an axis that obeys
the command of another."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from crossfeed.audits.finding import Finding
from crossfeed.audits.physics import electric_balance
from crossfeed.audits.subject import AXES, Case, Signal, Subject, command_of, drive_of, is_bus, signals_of

# A DC link stands between these volts and hardly moves; a voltage that never leaves the second range is no supply.
LINK_VOLTS, LINK_MOVES = (100.0, 1200.0), 0.25
NO_SUPPLY_VOLTS = 20.0
# An axis follows its own feed at least so well, and another one better by at least so much, before we speak.
RESPONSE, MARGIN = 0.3, 0.2


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
            yield Finding(
                severity="violation",
                subject=f"{subject.label}: {voltage.name} and {partner.name}",
                measured=f"{voltage.name} never exceeds {voltage.reach:.3g} V while {partner.name} stands at "
                f"{np.median(partner.finite):.4g} +- {partner.spread / 4:.2g} A{_evidence(subject, voltage, partner)}",
                meaning="the voltage column holds the current and the current column holds the voltage of the DC link",
                cause="two header names were interchanged",
                remedy="Map the columns by what they hold, not by their names.",
                numbers={"voltage_reach": voltage.reach, "current_median": float(np.median(partner.finite))},
            )
        else:
            yield Finding(
                severity="violation",
                subject=f"{subject.label}: {voltage.name}",
                measured=f"never exceeds {voltage.reach:.3g} V; the link of a drive has {LINK_VOLTS[0]:g} V or more",
                meaning="this is no DC-link voltage",
                cause="another signal under this name, or kV or per-unit values",
                remedy="Check what the column holds, and map or declare it accordingly.",
                numbers={"voltage_reach": voltage.reach},
            )
    for current in standing:
        yield Finding(
            severity="warning",
            subject=f"{subject.label}: {current.name}",
            measured=f"stands at {np.median(current.finite):.4g} +- {current.spread / 4:.2g} A at work and at rest",
            meaning="a motor current follows the load; this looks like the voltage of a DC link",
            cause="a wrong header name",
            remedy="Check what the column holds.",
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
                yield Finding(
                    severity="violation",
                    subject=f"{subject.label}: {signals[one].name} and {signals[two].name}",
                    measured=f"{signals[one].name} follows {feeds[two].name} ({crossed[0]:.2f}) better than "
                    f"{feeds[one].name} ({straight[0]:.2f}), and {signals[two].name} follows {feeds[one].name} "
                    f"({crossed[1]:.2f}) better than {feeds[two].name} ({straight[1]:.2f})",
                    meaning="the two axes are interchanged, in the sensors or in the commands",
                    cause="drive numbers and axis letters were assigned the wrong way round",
                    remedy="Exchange the two columns in the mapping.",
                    numbers={"crossed": min(crossed), "straight": max(straight)},
                )


def _follows(signal: Signal, feed: Signal) -> float:
    """Correlation of a force-like signal with the direction in which the axis is told to move."""
    known = np.isfinite(signal.values) & np.isfinite(feed.values)
    direction = np.sign(feed.values[known])
    values = signal.values[known]
    if len(values) < 30 or direction.std() == 0 or values.std() == 0:
        return 0.0
    return float(abs(np.corrcoef(values, direction)[0, 1]))
