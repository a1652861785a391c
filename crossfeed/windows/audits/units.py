"""Units: do machines that share a channel agree on its size, and do the numbers fit what machine tools can do?"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from crossfeed.schema import conversion, convertible, facts_of
from crossfeed.windows.audits.physics import Factor, check_physics, factors, nearest
from crossfeed.windows.audits.subject import Case, Finding, Severity, Signal, Subject

# Real machines differ: a desktop mill and a machining centre by 24 in rapid traverse, 6 in spindle speed and 108 in
# power. So a factor counts as a unit error only where it explains a ratio to within this much (by the size of the
# factor), and a factor below 60 only as a warning: there physics inside each machine decides (physics.py).
EXPLAINED_WITHIN = {1000.0: 8.0, 59.9: 4.0}
SMALL_FACTOR_WITHIN = 1.5
UNEXPLAINED_RATIO = 100.0
KELVIN = 273.15


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
        yield _finding(one, two, quantity, verdict, ratios)


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


def _finding(one: Subject, two: Subject, quantity: str, verdict: UnitVerdict, ratios: dict[str, float]) -> Finding:
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
    return Finding(
        severity=verdict.severity,
        subject=f"{one.label} and {two.label}: {', '.join(ratios)}",
        measured=measured + remark,
        meaning="the same number means different things on the two machines; what is learned on one fails on the other",
        cause=cause,
        remedy="Declare the unit in which the column is really written; crossfeed ingest derives the factor.",
        numbers={"smallest_ratio": sizes[0], "largest_ratio": sizes[-1]}
        | ({"factor": round(factor.size, 6)} if factor else {}),
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
        yield Finding(
            severity="violation" if certain else "warning",
            subject=f"{subject.label}: {signal.name}",
            measured=f"reaches {reach:.4g} {usual}; machine tools show {low:g} to {high:g}"
            + (f"; {explained} would explain it" if explained else ""),
            meaning=f"hardly a {signal.quantity} in {signal.unit}",
            cause=f"values in {other}" if other else "raw counts, another channel, or a machine at rest",
            remedy="Declare the unit in which the column is really written.",
            numbers={"reach": reach} | ({"factor": round(fitting[0].size, 6)} if fitting else {}),
        )
