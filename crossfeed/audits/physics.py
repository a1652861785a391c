"""Units inside one machine: power is torque times speed, and voltage times current, whatever the header says."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from crossfeed.audits.drives import drive_of, signals_of
from crossfeed.audits.factors import Factor, factors, nearest
from crossfeed.audits.finding import Finding
from crossfeed.audits.subject import Signal, Subject
from crossfeed.errors import SchemaError
from crossfeed.schema import conversion

CHECK = "units"
# Rows count where both factors of the product are above this share of their reach; fewer rows say nothing.
LOADED, FEWEST_ROWS = 0.2, 30
# Losses, gears and the difference between set and actual speed stay within this factor.
NATURAL, EXPLAINED_WITHIN = 3.0, 2.2


class Balance(NamedTuple):
    """The median of power over the product that should be power, with its quartiles and the number of rows."""

    ratio: float
    low: float
    high: float
    rows: int


def power_balance(power: Signal, torque: Signal, speed: Signal) -> Balance | None:
    """Electric or active power over torque times speed; about 1, and above it by the losses."""
    try:
        watts = power.values * conversion(power.unit or "kW", "W").scale
        newton_metres = torque.values * conversion(torque.unit or "N m", "N m").scale
        radians = speed.values * conversion(speed.unit or "rpm", "rad/s").scale
    except SchemaError:
        return None
    return _balance(np.abs(watts), np.abs(newton_metres), np.abs(radians))


def electric_balance(power: Signal, voltage: Signal, current: Signal) -> Balance | None:
    """Power over voltage times current of the motor; between the power factor and the root of three."""
    watts = power.values * conversion(power.unit or "kW", "W").scale
    return _balance(np.abs(watts), np.abs(voltage.values), np.abs(current.values))


def _balance(product: np.ndarray, one: np.ndarray, two: np.ndarray) -> Balance | None:
    known = np.isfinite(product) & np.isfinite(one) & np.isfinite(two)
    if known.sum() < FEWEST_ROWS:
        return None
    rows = known & (one > LOADED * np.quantile(one[known], 0.998)) & (two > LOADED * np.quantile(two[known], 0.998))
    rows &= product > 0
    if rows.sum() < FEWEST_ROWS:
        return None
    low, middle, high = np.quantile(product[rows] / (one[rows] * two[rows]), (0.25, 0.5, 0.75))
    return Balance(float(middle), float(low), float(high), int(rows.sum()))


def check_physics(subject: Subject) -> Iterator[Finding]:
    """Report a spindle whose power is not its torque times its speed."""
    for speed in subject.of("rotational speed", "command"):
        drive = drive_of(speed)
        for power in signals_of(subject, drive, "power") if drive else ():
            for torque in signals_of(subject, drive, "torque") if drive else ():
                balance = power_balance(power, torque, speed)
                if balance is not None:
                    yield from _spindle(subject, balance, power, torque, speed)


def _spindle(subject: Subject, balance: Balance, power: Signal, torque: Signal, speed: Signal) -> Iterator[Finding]:
    if 1.0 / NATURAL <= balance.ratio <= NATURAL:
        return
    blame: list[tuple[Signal, Factor]] = []
    for signal, direction in ((power, 1), (torque, -1), (speed, -1)):
        for factor in factors(signal.quantity or "", signal.unit or ""):
            blame.append((signal, Factor(factor.unit, factor.inflation**direction)))
    found = nearest(balance.ratio, [factor for _, factor in blame])
    measured = (
        f"power is {balance.ratio:.3g} times torque x speed (quartiles {balance.low:.3g} to {balance.high:.3g}, "
        f"{balance.rows} rows under load)"
    )
    if found is None or found[1] > EXPLAINED_WITHIN:
        yield Finding(
            check=CHECK,
            severity="warning",
            subject=f"{subject.label}: {power.name}, {torque.name}, {speed.name}",
            measured=measured + "; no usual unit explains it",
            meaning="the three columns do not belong to one spindle, or one of them is no physical value",
            cause="a gear, a rated-load percentage, or power of the whole machine",
            remedy="Check what the three columns really hold.",
            numbers={"ratio": balance.ratio},
        )
        return
    close = [
        (signal, factor) for signal, factor in blame if math.isclose(factor.inflation, found[0].inflation, rel_tol=0.05)
    ]
    names = " or ".join(f"{signal.name} in {factor.unit} instead of {signal.unit}" for signal, factor in close)
    yield Finding(
        check=CHECK,
        severity="violation",
        subject=f"{subject.label}: {' or '.join(signal.name for signal, _ in close)}",
        measured=f"{measured}, explained to within {found[1]:.2g} by factor {found[0].size:.4g}",
        meaning="power, torque and speed of one spindle contradict each other",
        cause=names,
        remedy="Declare the unit in which the column is really written.",
        numbers={"ratio": balance.ratio, "factor": round(found[0].size, 6)},
    )
