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
DRAWS = 2000  # of a bootstrap, and of experiments by which power is simulated
LEVEL = 0.95
THRESHOLD = 0.05
MONTE_CARLO_FLIPS = 1 << 20


def conformal_rank(count: int, share: float) -> int:
    """The rank from below of the score, among so many, that a further one stays under with at least this chance.

    A rank above `count` says that there are too few of them.
    """
    return math.ceil((count + 1) * share - 1e-9)


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its bootstrap interval over runs; None where a ratio has nothing to divide by.

    `low` and `high` are None with fewer than three runs, `units` is how many there were.
    """

    estimate: float | None
    low: float | None = None
    high: float | None = None
    units: int = 0


@np.errstate(divide="ignore", invalid="ignore")
def bootstrap(sums_RS: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]) -> Interval:
    """Resample whole runs and recompute `statistic` from the summed rows: columns such as (squared error, count)."""
    units = len(sums_RS)
    if units == 0:
        raise ConfigError("A bootstrap was asked for without a single run.", expected="at least one run")
    whole = float(statistic(sums_RS.sum(0, keepdims=True))[0])
    estimate = whole if math.isfinite(whole) else None
    if units < 3:
        return Interval(estimate, None, None, units)
    weights = np.random.default_rng(0).multinomial(units, np.full(units, 1.0 / units), size=DRAWS)
    resampled = statistic(weights.astype(np.float64) @ sums_RS)
    resampled = resampled[np.isfinite(resampled)]
    if not len(resampled):
        return Interval(estimate, None, None, units)
    low, high = np.quantile(resampled, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return Interval(estimate, float(low), float(high), units)


def sign_flip_floor(units: int) -> float:
    """The smallest p the exact two-sided sign-flip test can give: 0.25, 0.0625, 0.0156 for 3, 5 and 7 runs."""
    return min(1.0, 2.0 / 2.0**units)


def sign_flip(differences_R: np.ndarray) -> float:
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
    generator = np.random.default_rng(0)
    count, chunk = 0, 1 << 16
    for _ in range(MONTE_CARLO_FLIPS // chunk):
        signs = generator.integers(0, 2, size=(chunk, len(differences)), dtype=np.int8) * 2 - 1
        count += int(np.count_nonzero(np.abs(signs @ differences) >= bound))
    return (count + 1) / (MONTE_CARLO_FLIPS + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: compare the result with the plain threshold."""
    p = np.asarray(p_values)
    order, adjusted = np.argsort(p, kind="stable"), np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
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


def paired_tests(metric_by_name: dict[str, np.ndarray], reference: str) -> list[PairedTest]:
    """Test `reference` against every other forecaster, run by run, with Holm's correction over the comparisons."""
    others = [name for name in metric_by_name if name != reference]
    raw = []
    for name in others:
        difference = np.asarray(metric_by_name[reference]) - np.asarray(metric_by_name[name])
        difference = difference[np.isfinite(difference)]
        raw.append((name, difference, sign_flip(difference) if len(difference) else 1.0))
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
                verdict=_verdict(p_holm, min(1.0, floor * len(others)), units, len(others)),
            )
        )
    return results


def _verdict(p_holm: float, floor: float, units: int, comparisons: int) -> str:
    if floor > THRESHOLD:
        tests = "one comparison" if comparisons == 1 else f"{comparisons} comparisons"
        return f"cannot be decided: {units} units and {tests} never go below p = {floor:.3g}"
    return f"differs (p = {p_holm:.3g})" if p_holm <= THRESHOLD else f"not shown (p = {p_holm:.3g})"


@dataclass(frozen=True, slots=True)
class Power:
    """How often a true effect of `effect` standard deviations (over runs) is found with `units` runs."""

    units: int
    effect: float
    power: float
    floor: float
    reachable: bool


def power_table(units: Sequence[int], effects: Sequence[float] = (0.5, 1.0, 1.5, 2.0)) -> list[Power]:
    """Power of the sign-flip test on normal differences: by simulation up to 12 runs, by the t test's beyond."""
    rows = []
    for count in units:
        floor = sign_flip_floor(count)
        for effect in effects:
            power = _power(count, effect) if floor <= THRESHOLD else 0.0
            rows.append(Power(count, effect, power, floor, floor <= THRESHOLD))
    return rows


def _power(units: int, effect: float) -> float:
    if units > 12:
        from scipy.stats import nct, t

        edge, shift = t.ppf(1.0 - THRESHOLD / 2.0, units - 1), effect * math.sqrt(units)
        return float(nct.sf(edge, units - 1, shift) + nct.cdf(-edge, units - 1, shift))
    differences = np.random.default_rng(0).normal(effect, 1.0, size=(DRAWS, units))
    # The first sign can stay fixed: flipping all signs at once leaves the two-sided statistic as it is.
    bits = (np.arange(1 << (units - 1))[:, None] >> np.arange(units)) & 1
    flipped = np.abs(differences @ (1.0 - 2.0 * bits).T)
    p_values = (flipped >= flipped[:, :1] * (1.0 - 1e-12)).mean(1)
    return float((p_values <= THRESHOLD).mean())
