"""Units: do machines that share a channel agree on its size, and do the numbers fit what machine tools can do?"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from crossfeed.audits.factors import COMMON_UNITS, PLAUSIBLE_REACH, Factor, factors, nearest
from crossfeed.audits.finding import Finding, Severity
from crossfeed.audits.physics import check_physics
from crossfeed.audits.subject import Case, Signal, Subject
from crossfeed.errors import SchemaError
from crossfeed.schema import conversion

CHECK = "units"
# Real machines differ: rapid traverse by 10, spindle speed by 4, power by 60. A factor is called a unit error only
# where it explains a ratio to within this much, and the smallest factors only where physics agrees (see physics.py).
EXPLAINED_WITHIN = {1000.0: 8.0, 60.0: 3.0, 20.0: 1.6}
UNEXPLAINED_RATIO = 100.0
SMALL_FACTOR_WITHIN = 1.5


def check_units(case: Case) -> Iterator[Finding]:
    """Compare every pair of machines, then each machine with physics and with what exists."""
    for one, two in combinations(case.subjects, 2):
        yield from _pair(one, two)
    for subject in case.subjects:
        yield from check_physics(subject)
        yield from _plausible(subject)


def _pair(one: Subject, two: Subject) -> Iterator[Finding]:
    shared: dict[tuple[str, str], list[tuple[Signal, float]]] = defaultdict(list)
    for signal in one.measured:
        other = two.signal(signal.name)
        if other is None or signal.quantity is None or signal.unit is None or signal.quantity == "temperature":
            continue
        ratio = _ratio(signal, other)
        if ratio is not None:
            shared[signal.quantity, signal.unit].append((signal, ratio))
    for (quantity, unit), channels in shared.items():
        typical = float(np.exp(np.median(np.log([ratio for _, ratio in channels]))))
        yield from _verdict(one, two, quantity, unit, typical, [signal.name for signal, _ in channels])
        for signal, ratio in channels:
            # One channel in another unit than its neighbours of the same quantity.
            if len(channels) > 2 and abs(np.log(ratio / typical)) > np.log(20.0):
                yield from _verdict(one, two, quantity, unit, ratio, [signal.name])


def _ratio(signal: Signal, other: Signal) -> float | None:
    """How much further `other` reaches, in the same unit."""
    if not signal.reach or not other.reach:
        return None
    try:
        return other.reach * conversion(other.unit or "1", signal.unit or "1").scale / signal.reach
    except SchemaError:
        return None


def _verdict(one: Subject, two: Subject, quantity: str, unit: str, ratio: float, names: list[str]) -> Iterator[Finding]:
    where, larger = f"{one.label} and {two.label}: {', '.join(names)}", max(ratio, 1.0 / ratio)
    found = nearest(ratio, _both_ways(factors(quantity, unit)))
    measured = f"{quantity} reaches {larger:.3g} times as far on {(two if ratio > 1 else one).label}"
    if found is not None and larger > found[0].size ** 0.5:
        factor, rest = found
        allowed = next((within for size, within in EXPLAINED_WITHIN.items() if factor.size >= size), 0.0)
        if rest <= allowed:
            yield _unit_finding(
                "violation", where, f"{measured}, explained to within {rest:.2g} by {factor.describe()}", unit, factor
            )
            return
        if not allowed and rest <= SMALL_FACTOR_WITHIN:
            yield _unit_finding(
                "warning",
                where,
                f"{measured}, which {factor.describe()} would explain, but so would a smaller machine",
                unit,
                factor,
            )
            return
    if larger > UNEXPLAINED_RATIO:
        yield Finding(
            check=CHECK,
            severity="warning",
            subject=where,
            measured=f"{measured}; no usual unit explains it",
            meaning="a normaliser fitted on one machine puts the other one far outside what the model has seen",
            cause="a very different machine, raw counts instead of physical units, or another channel",
            remedy=f"Check that both are really a {quantity} in {unit}.",
            numbers={"ratio": ratio},
        )


def _both_ways(candidates: list[Factor]) -> list[Factor]:
    """Either machine may be the one with the wrong unit."""
    return [*candidates, *(Factor(factor.unit, 1.0 / factor.inflation) for factor in candidates)]


def _unit_finding(severity: Severity, where: str, measured: str, unit: str, factor: Factor) -> Finding:
    return Finding(
        check=CHECK,
        severity=severity,
        subject=where,
        measured=measured,
        meaning="the same number means different things on the two machines; nothing learned on one holds on the other",
        cause=f"one machine writes {factor.unit} where {unit} is declared",
        remedy=f"Declare the native unit ({factor.unit}) of the column; crossfeed ingest derives the factor.",
        numbers={"factor": round(factor.size, 6)},
    )


def _plausible(subject: Subject) -> Iterator[Finding]:
    for signal in subject.measured:
        if signal.quantity not in PLAUSIBLE_REACH or signal.unit is None or not signal.reach:
            continue
        usual = COMMON_UNITS.get(signal.quantity, (signal.unit,))[0]
        try:
            to_usual = conversion(signal.unit, usual)
        except SchemaError:
            continue
        reach = signal.reach * to_usual.scale + to_usual.offset
        low, high = PLAUSIBLE_REACH[signal.quantity]
        if low <= reach <= high:
            continue
        fitting = [f for f in factors(signal.quantity, signal.unit) if low <= reach / f.inflation <= high]
        certain = reach > high and bool(fitting) and signal.declared
        yield Finding(
            check=CHECK,
            severity="violation" if certain else "warning",
            subject=f"{subject.label}: {signal.name}",
            measured=f"reaches {reach:.4g} {usual}; machine tools show {low:g} to {high:g}"
            + (f"; {fitting[0].describe()} would explain it" if fitting else ""),
            meaning=f"hardly a {signal.quantity} in {signal.unit}",
            cause=f"values in {fitting[0].unit}" if fitting else "raw counts, another channel, or a machine at rest",
            remedy="Declare the unit in which the column is really written.",
            numbers={"reach": reach} | ({"factor": round(fitting[0].size, 6)} if fitting else {}),
        )
