"""Run-level statistics: runs are the independent units, windows never are.

R runs, S sums. A threshold is only spoken of where the number of runs lets the test reach it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from crossfeed.errors import ConfigError

# Up to here all 2^n sign flips are enumerated; beyond, a million random flips are drawn.
EXACT_UNITS = 20
BOOTSTRAP_DRAWS = 2000
MONTE_CARLO_FLIPS = 1 << 20


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its bootstrap interval over runs; None where a ratio has nothing to divide by.

    `low` and `high` are None with fewer than three runs, `units` is how many there were.
    """

    estimate: float | None
    low: float | None = None
    high: float | None = None
    units: int = 0


def bootstrap(
    sums_RS: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    level: float = 0.95,
    draws: int = BOOTSTRAP_DRAWS,
    seed: int = 0,
) -> Interval:
    """Resample whole runs and recompute `statistic` from the summed rows: columns such as (squared error, count)."""
    units = len(sums_RS)
    if units == 0:
        raise ConfigError("A bootstrap was asked for without a single run.", expected="at least one run")
    whole = float(statistic(sums_RS.sum(0, keepdims=True))[0])
    estimate = whole if math.isfinite(whole) else None
    if units < 3:
        return Interval(estimate, None, None, units)
    weights = np.random.default_rng(seed).multinomial(units, np.full(units, 1.0 / units), size=draws)
    resampled = statistic(weights.astype(np.float64) @ sums_RS)
    resampled = resampled[np.isfinite(resampled)]
    if not len(resampled):
        return Interval(estimate, None, None, units)
    low, high = np.quantile(resampled, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(estimate, float(low), float(high), units)


def sign_flip_floor(units: int) -> float:
    """The smallest p the exact two-sided sign-flip test can give: 0.25, 0.0625, 0.0156 for 3, 5 and 7 runs."""
    return min(1.0, 2.0 / 2.0**units)


def sign_flip(differences_R: np.ndarray, seed: int = 0) -> float:
    """Two-sided paired sign-flip test of a zero mean: exact count over all 2^n flips up to 20 runs."""
    differences = np.asarray(differences_R, dtype=np.float64)
    observed = abs(differences.sum())
    # Sums that are equal on paper differ in the last bits; they must count as equal.
    bound = observed - 1e-12 * np.abs(differences).sum()
    if len(differences) <= EXACT_UNITS:
        sums = np.zeros(1)
        for difference in differences:
            sums = np.concatenate([sums + difference, sums - difference])
        return float(np.count_nonzero(np.abs(sums) >= bound) / len(sums))
    generator = np.random.default_rng(seed)
    count, chunk = 0, 1 << 16
    for _ in range(MONTE_CARLO_FLIPS // chunk):
        signs = generator.integers(0, 2, size=(chunk, len(differences)), dtype=np.int8) * 2 - 1
        count += int(np.count_nonzero(np.abs(signs @ differences) >= bound))
    return (count + 1) / (MONTE_CARLO_FLIPS + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: compare the result with the plain threshold."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(order))
    running = 0.0
    for position, index in enumerate(order):
        running = max(running, (len(order) - position) * p_values[index])
        adjusted[index] = min(1.0, running)
    return [float(value) for value in adjusted]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A paired comparison of two forecasters over runs; negative differences favour the first."""

    first: str
    second: str
    mean_difference: float | None
    wins: int
    units: int
    p_sign_flip: float
    p_holm: float
    floor: float
    verdict: str


def compare(
    metric_by_name: dict[str, np.ndarray], reference: str, threshold: float = 0.05, seed: int = 0
) -> list[PairedTest]:
    """Test `reference` against every other forecaster, run by run, with Holm's correction over the comparisons."""
    others = [name for name in metric_by_name if name != reference]
    raw = []
    for name in others:
        difference = np.asarray(metric_by_name[reference]) - np.asarray(metric_by_name[name])
        difference = difference[np.isfinite(difference)]
        raw.append((name, difference, sign_flip(difference, seed) if len(difference) else 1.0))
    adjusted = holm([p for _, _, p in raw])
    results = []
    for (name, difference, p), p_holm in zip(raw, adjusted, strict=True):
        units = len(difference)
        floor = sign_flip_floor(units)
        results.append(
            PairedTest(
                first=reference,
                second=name,
                mean_difference=float(difference.mean()) if units else None,
                wins=int((difference < 0.0).sum()),
                units=units,
                p_sign_flip=p,
                p_holm=p_holm,
                floor=floor,
                verdict=_verdict(p_holm, min(1.0, floor * len(others)), units, len(others), threshold),
            )
        )
    return results


def _verdict(p_holm: float, floor: float, units: int, comparisons: int, threshold: float) -> str:
    if floor > threshold:
        tests = "one comparison" if comparisons == 1 else f"{comparisons} comparisons"
        return f"cannot be decided: {units} units and {tests} never go below p = {floor:.3g}"
    return f"differs (p = {p_holm:.3g})" if p_holm <= threshold else f"not shown (p = {p_holm:.3g})"


@dataclass(frozen=True, slots=True)
class Power:
    """How often a true effect of `effect` standard deviations (over runs) is found with `units` runs."""

    units: int
    effect: float
    power: float
    floor: float
    reachable: bool


def power_table(
    units: Sequence[int] = (3, 5, 7, 10, 13, 20),
    effects: Sequence[float] = (0.5, 1.0, 1.5, 2.0),
    threshold: float = 0.05,
    draws: int = 2000,
    seed: int = 0,
) -> list[Power]:
    """Power of the sign-flip test on normal differences: by simulation up to 12 runs, by the t test's beyond."""
    rows = []
    for count in units:
        floor = sign_flip_floor(count)
        for effect in effects:
            power = _power(count, effect, threshold, draws, seed) if floor <= threshold else 0.0
            rows.append(Power(count, effect, power, floor, floor <= threshold))
    return rows


def _power(units: int, effect: float, threshold: float, draws: int, seed: int) -> float:
    if units > 12:
        from scipy.stats import nct, t

        edge, shift = t.ppf(1.0 - threshold / 2.0, units - 1), effect * math.sqrt(units)
        return float(nct.sf(edge, units - 1, shift) + nct.cdf(-edge, units - 1, shift))
    differences = np.random.default_rng(seed).normal(effect, 1.0, size=(draws, units))
    # The first sign can stay fixed: flipping all signs at once leaves the two-sided statistic as it is.
    bits = (np.arange(1 << (units - 1))[:, None] >> np.arange(units)) & 1
    flipped = np.abs(differences @ (1.0 - 2.0 * bits).T)
    p_values = (flipped >= flipped[:, :1] * (1.0 - 1e-12)).mean(1)
    return float((p_values <= threshold).mean())
