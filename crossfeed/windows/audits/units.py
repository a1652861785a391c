"""Units: do machines that share a channel agree on its size, and do the numbers of one fit physics and what exists?

By how much a wrong unit puts values off follows from the units in which people write a quantity. The power of a drive
is its torque times its speed, whatever the header says. For a spindle the speed is known. For an axis it is the feed
over the travel of one motor turn, which no log contains but which lies between a few and some tens of millimetres; that
is enough to see a factor of 60 or 1000.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from crossfeed.errors import SchemaError
from crossfeed.schema import conversion, convertible, facts_of
from crossfeed.windows.audits.subject import (
    AXES,
    Case,
    Finding,
    Severity,
    Signal,
    Subject,
    command_of,
    finding,
    signals_of,
)

# Real machines differ: a desktop mill and a machining centre by 24 in rapid traverse, 6 in spindle speed and 108 in
# power. So a factor counts as a unit error only where it explains a ratio to within this much (by the size of the
# factor), and a factor below 60 only as a warning: there physics inside each machine decides (below).
EXPLAINED_WITHIN = {1000.0: 8.0, 59.9: 4.0}
SMALL_FACTOR_WITHIN = 1.5
UNEXPLAINED_RATIO = 100.0
KELVIN = 273.15
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


class UnitVerdict(NamedTuple):
    """What the ratio of one shared channel says; no factor means that no usual unit explains it."""

    severity: Severity
    factor: Factor | None


def check_units(case: Case) -> Iterator[Finding]:
    """Compare every pair of machines, then each machine with physics and with what exists."""
    for one, two in combinations(case.subjects, 2):
        yield from _pair(one, two)
    for subject in case.subjects:
        yield from check_physics(subject)
        yield from _plausible(subject)


def _pair(one: Subject, two: Subject) -> Iterator[Finding]:
    """One finding for all channels of a quantity that call for the same factor."""
    ratios_of: dict[tuple[str, UnitVerdict], dict[str, float]] = defaultdict(dict)
    for signal in one.measured:
        other = two.signal(signal.name)
        if other is None or signal.quantity in (None, "temperature"):
            continue
        ratio = _ratio(signal, other)
        verdict = _verdict(signal, other, ratio) if ratio else None
        if ratio and verdict:
            ratios_of[signal.quantity or "", verdict][signal.name] = ratio
    for (quantity, verdict), ratios in ratios_of.items():
        yield _difference(one, two, quantity, verdict, ratios)


def _ratio(signal: Signal, other: Signal) -> float | None:
    """How much further `other` reaches, in the same unit."""
    if not signal.reach or not other.reach or signal.unit is None or other.unit is None:
        return None
    if not convertible(other.unit, signal.unit):
        return None
    return other.reach * conversion(other.unit, signal.unit).scale / signal.reach


def _verdict(signal: Signal, other: Signal, ratio: float) -> UnitVerdict | None:
    candidates = factors(signal.quantity or "", signal.unit or "")
    # Either machine may be the one with the wrong unit.
    both = [*candidates, *(Factor(factor.unit, 1.0 / factor.inflation) for factor in candidates)]
    best, larger = nearest(ratio, both), max(ratio, 1.0 / ratio)
    if best is not None and larger > best[0].size ** 0.5:
        factor, rest = best
        suspect = other if factor in candidates else signal
        allowed = next((within for size, within in EXPLAINED_WITHIN.items() if factor.size >= size), None)
        if _could_be(suspect, factor if suspect is other else Factor(factor.unit, 1.0 / factor.inflation)):
            if allowed is not None and rest <= allowed:
                return UnitVerdict("violation", factor)
            if allowed is None and rest <= SMALL_FACTOR_WITHIN:
                return UnitVerdict("warning", factor)
    return UnitVerdict("warning", None) if larger > UNEXPLAINED_RATIO else None


def _could_be(suspect: Signal, factor: Factor) -> bool:
    """Whether the suspect, read in the other unit, would be something that exists."""
    low, high = facts_of(suspect.quantity or "").reach or (0.0, float("inf"))
    return low <= suspect.reach / factor.inflation <= high


def _difference(one: Subject, two: Subject, quantity: str, verdict: UnitVerdict, ratios: dict[str, float]) -> Finding:
    sizes = sorted(max(ratio, 1.0 / ratio) for ratio in ratios.values())
    size = f"{sizes[0]:.3g}" if len(sizes) == 1 else f"{sizes[0]:.3g} to {sizes[-1]:.3g}"
    farther = two if next(iter(ratios.values())) > 1 else one
    measured, factor = f"{quantity} reaches {size} times as far on {farther.label}", verdict.factor
    if factor is None:
        remark, cause = "; no usual unit explains it", "another kind of machine, raw counts, or another channel"
    else:
        remark = f", which {factor.describe()} explains"
        cause = f"one machine writes {factor.unit} where another unit is declared"
        if verdict.severity == "warning":
            remark += ", but so would a larger machine"
    return finding(
        "unit differs",
        f"{one.label} and {two.label}: {', '.join(ratios)}",
        measured + remark,
        {"smallest_ratio": sizes[0], "largest_ratio": sizes[-1]}
        | ({"factor": round(factor.size, 6)} if factor else {}),
        severity=verdict.severity,
        cause=cause,
    )


def _plausible(subject: Subject) -> Iterator[Finding]:
    for signal in subject.measured:
        facts = facts_of(signal.quantity or "")
        if facts.reach is None or signal.quantity is None or signal.unit is None or not signal.reach:
            continue
        usual = facts.unit if facts.others else signal.unit
        if not convertible(signal.unit, usual):
            continue
        to_usual = conversion(signal.unit, usual)
        reach = signal.reach * to_usual.scale + to_usual.offset
        low, high = facts.reach
        if low <= reach <= high:
            continue
        fitting = [f for f in factors(signal.quantity, signal.unit) if low <= reach / f.inflation <= high]
        kelvin = signal.quantity == "temperature" and low <= reach - KELVIN <= high
        certain = reach > high and (bool(fitting) or kelvin) and signal.declared
        other = fitting[0].unit if fitting else "kelvin" if kelvin else ""
        explained = fitting[0].describe() if fitting else f"an offset of {KELVIN:g} (kelvin)" if kelvin else ""
        yield finding(
            "implausible",
            f"{subject.label}: {signal.name}",
            f"reaches {reach:.4g} {usual}; machine tools show {low:g} to {high:g}"
            + (f"; {explained} would explain it" if explained else ""),
            {"reach": reach} | ({"factor": round(fitting[0].size, 6)} if fitting else {}),
            severity="violation" if certain else "warning",
            quantity=signal.quantity,
            unit=signal.unit,
            cause=f"values in {other}" if other else "raw counts, another channel, or a machine at rest",
        )


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
                yield _contradiction(subject, law, balance, (powers[0], torques[0], speed))


def _contradiction(subject: Subject, law: Law, balance: Balance, signals: tuple[Signal, Signal, Signal]) -> Finding:
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
        return finding(
            "power unexplained",
            f"{subject.label}: {', '.join(signal.name for signal in signals)}",
            measured + "; no usual unit explains it",
            {"ratio": balance.ratio},
        )
    suspects = [(s, f) for s, f in blame if math.isclose(f.inflation, best[0].inflation, rel_tol=0.05)]
    return finding(
        "power contradicts",
        f"{subject.label}: {' or '.join(signal.name for signal, _ in suspects)}",
        f"{measured}, which factor {best[0].size:.4g} explains to within {best[1]:.2g}",
        {"ratio": balance.ratio, "factor": round(best[0].size, 6)},
        severity="violation" if declared else "warning",
        cause=" or ".join(f"{signal.name} in {factor.unit} instead of {signal.unit}" for signal, factor in suspects),
    )
