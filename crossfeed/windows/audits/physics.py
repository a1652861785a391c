"""Units inside one machine: the power of a drive is its torque times its speed, whatever the header says.

By how much a wrong unit puts values off follows from the units in which people write a quantity.

For a spindle the speed is known. For an axis it is the feed over the travel of one motor turn, which no log contains
but which lies between a few and some tens of millimetres; that is enough to see a factor of 60 or 1000.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from crossfeed.errors import SchemaError
from crossfeed.schema import conversion, convertible, facts_of
from crossfeed.windows.audits.subject import AXES, Finding, Signal, Subject, command_of, signals_of

# Rows count where torque and speed are above this share of their reach; fewer rows say nothing.
LOADED, FEWEST_ROWS = 0.05, 20
TRAVEL_MM = 12.0


class Factor(NamedTuple):
    """Values written in `unit` are `inflation` times as large as in the declared unit."""

    unit: str
    inflation: float

    @property
    def size(self) -> float:
        """The factor as a number above 1, as people name it."""
        return max(self.inflation, 1.0 / self.inflation)

    def describe(self) -> str:
        """Such as 'factor 60 (mm/s)'."""
        return f"factor {self.size:.4g} ({self.unit})"


def factors(quantity: str, declared: str) -> list[Factor]:
    """What values look like when they are in another common unit than the declared one."""
    facts = facts_of(quantity)
    if facts.is_share:
        return [Factor("a share of 1", 0.01), Factor("percent", 100.0)]
    units = [unit for unit in (facts.unit, *facts.others) if facts.others and convertible(unit, declared)]
    possible = [Factor(unit, 1.0 / conversion(unit, declared).scale) for unit in units]
    return [factor for factor in possible if not math.isclose(factor.inflation, 1.0, rel_tol=1e-3)]


def nearest(ratio: float, candidates: list[Factor]) -> tuple[Factor, float] | None:
    """The factor that explains a ratio best, and what is left unexplained (at least 1)."""
    if not candidates or not ratio > 0:
        return None
    best = min(candidates, key=lambda factor: abs(math.log(ratio / factor.inflation)))
    return best, math.exp(abs(math.log(ratio / best.inflation)))


class Balance(NamedTuple):
    """The median of power over the product that should be power, with its quartiles and the number of rows."""

    ratio: float
    low: float
    high: float
    rows: int


class Law(NamedTuple):
    """How close to 1 a balance is on sound machines, and within what a factor must explain it."""

    natural: float
    within: float
    words: str


# Losses, gears and the difference between set and actual speed; the travel of a motor turn is known to a factor of 8.
SPINDLE = Law(3.0, 2.2, "torque x speed")
AXIS = Law(8.0, 4.0, f"torque x feed at {TRAVEL_MM:g} mm a motor turn")


def power_balance(power: Signal, torque: Signal, speed: Signal) -> Balance | None:
    """Power over torque times speed of a drive; about 1, and above it by the losses."""
    try:
        watts = power.values * conversion(power.unit or "", "W").scale
        newton_metres = torque.values * conversion(torque.unit or "", "N m").scale
        if speed.quantity == "feed":
            radians = speed.values * conversion(speed.unit or "", "mm/s").scale / TRAVEL_MM * 2.0 * math.pi
        else:
            radians = speed.values * conversion(speed.unit or "", "rad/s").scale
    except SchemaError:
        return None
    return _balance(np.abs(watts), np.abs(newton_metres), np.abs(radians))


def electric_balance(power: Signal, voltage: Signal, current: Signal) -> Balance | None:
    """Power over voltage times current of the motor; between the power factor and the root of three."""
    watts = power.values * conversion(power.unit or "kW", "W").scale
    return _balance(np.abs(watts), np.abs(voltage.values), np.abs(current.values))


def _balance(product: np.ndarray, one: np.ndarray, two: np.ndarray) -> Balance | None:
    finite = np.isfinite(product) & np.isfinite(one) & np.isfinite(two)
    if finite.sum() < FEWEST_ROWS:
        return None
    limits = [LOADED * np.quantile(values[finite], 0.998) for values in (product, one, two)]
    rows = finite & (product > limits[0] * LOADED) & (one > limits[1]) & (two > limits[2])
    if rows.sum() < FEWEST_ROWS:
        return None
    low, middle, high = np.quantile(product[rows] / (one[rows] * two[rows]), (0.25, 0.5, 0.75))
    return Balance(float(middle), float(low), float(high), int(rows.sum()))


def check_physics(subject: Subject) -> Iterator[Finding]:
    """Report drives whose power is not their torque times their speed."""
    for drive in ("spindle", *AXES):
        speed, law = command_of(subject, drive), SPINDLE if drive == "spindle" else AXIS
        powers, torques = signals_of(subject, drive, "power"), signals_of(subject, drive, "torque")
        if speed is not None and powers and torques:
            balance = power_balance(powers[0], torques[0], speed)
            if balance is not None and abs(math.log(balance.ratio)) > math.log(law.natural):
                yield _finding(subject, law, balance, (powers[0], torques[0], speed))


def _finding(subject: Subject, law: Law, balance: Balance, signals: tuple[Signal, Signal, Signal]) -> Finding:
    # Power too large inflates the balance, torque or speed too large deflates it. Inches are as likely as not a
    # machine with another travel, so an axis is not accused of them.
    blame = [
        (signal, Factor(factor.unit, factor.inflation**direction))
        for signal, direction in zip(signals, (1, -1, -1), strict=True)
        for factor in factors(signal.quantity or "", signal.unit or "")
        if not factor.unit.startswith("in")
    ]
    best = nearest(balance.ratio, [factor for _, factor in blame])
    declared = all(signal.declared for signal in signals)
    measured = (
        f"power is {balance.ratio:.3g} times {law.words} (quartiles {balance.low:.3g} to {balance.high:.3g}, "
        f"{balance.rows} rows under load)"
    )
    if best is None or best[1] > law.within:
        return Finding(
            severity="warning",
            subject=f"{subject.label}: {', '.join(signal.name for signal in signals)}",
            measured=measured + "; no usual unit explains it",
            meaning="the three columns do not belong to one drive, or one of them is no physical value",
            cause="a gear, a percentage of the rated load, or the power of the whole machine",
            remedy="Check what the three columns really hold.",
            numbers={"ratio": balance.ratio},
        )
    suspects = [(s, f) for s, f in blame if math.isclose(f.inflation, best[0].inflation, rel_tol=0.05)]
    return Finding(
        severity="violation" if declared else "warning",
        subject=f"{subject.label}: {' or '.join(signal.name for signal, _ in suspects)}",
        measured=f"{measured}, which factor {best[0].size:.4g} explains to within {best[1]:.2g}",
        meaning="power, torque and speed of one drive contradict each other",
        cause=" or ".join(f"{signal.name} in {factor.unit} instead of {signal.unit}" for signal, factor in suspects),
        remedy="Declare the unit in which the column is really written.",
        numbers={"ratio": balance.ratio, "factor": round(best[0].size, 6)},
    )
