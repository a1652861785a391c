"""The composite score of the paper and its robust twin, both computed from the per-run components alone.

Lower is better. Each component is standardised within the pool of valid runs, weighted and summed; a run whose latents
collapsed after fine-tuning or whose forecasts hardly use the commands pays a penalty; a candidate's score is the mean
over its valid seeds, of which it needs two to be ranked. The paper standardises by mean and standard deviation, so a
single value in another unit flattens everybody else; the robust twin uses median and MAD, and a scale-free
self-supervised component. A network without latents has no such component: in a pool of such runs it is left out, and
the others share its weight.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev
from typing import Literal, get_args

from crossfeed.errors import ConfigError
from crossfeed.training.measure import WEAK_COMMAND_USE

Score = Literal["paper", "robust"]

# Weights of the paper (Section 5.2).
WEIGHTS: dict[str, float] = {
    "clean": 0.30,
    "schema_drop": 0.25,
    "masked": 0.15,
    "long_horizon": 0.10,
    "calibration": 0.10,
    "ssl": 0.10,
}
COLLAPSE_PENALTY = 3.0
WEAK_COMMAND_PENALTY = 1.0
FEWEST_SEEDS = 2  # a single valid seed, as of the paper's large model, is no evidence


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What one finished run brings to the ranking."""

    candidate: str
    seed: int
    components: Mapping[str, float]
    ssl_scale_free: float | None
    command_ratio: float
    collapsed: bool = False
    invalid: str = ""

    @property
    def weak_command(self) -> bool:
        return self.command_ratio < WEAK_COMMAND_USE


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """One line of the ranking."""

    candidate: str
    paper: float
    robust: float
    seeds: int
    invalid_seeds: int
    collapsed_seeds: int
    weak_seeds: int
    components: Mapping[str, float]
    dropped_after: int | None = None


def weights_of(runs: Iterable[RunOutcome]) -> dict[str, float]:
    """The paper's weights; without the self-supervised one, and again with the sum 1, where no run has latents."""
    pool = list(runs)
    if not pool or any("ssl" in run.components for run in pool):
        return WEIGHTS
    left = {name: weight for name, weight in WEIGHTS.items() if name != "ssl"}
    return {name: weight / sum(left.values()) for name, weight in left.items()}


def run_scores(outcomes: Sequence[RunOutcome], by: Score) -> dict[tuple[str, int], float]:
    """The score of every valid run of the pool, by candidate and seed."""
    valid = [run for run in outcomes if not run.invalid]
    weights = weights_of(valid)
    _check_finite(valid, weights)
    totals = [COLLAPSE_PENALTY * run.collapsed + WEAK_COMMAND_PENALTY * run.weak_command for run in valid]
    for name, weight in weights.items():
        values = [_component(run, name, by) for run in valid]
        standardised = _ordinary(values) if by == "paper" else _robust(values)
        totals = [total + weight * value for total, value in zip(totals, standardised, strict=True)]
    return {(run.candidate, run.seed): total for run, total in zip(valid, totals, strict=True)}


def rank(outcomes: Sequence[RunOutcome], by: Score = "robust") -> list[CandidateScore]:
    """Score every candidate in the pool and sort by one of the two scores; those with too few valid runs come last."""
    paper, robust = run_scores(outcomes, "paper"), run_scores(outcomes, "robust")
    weights = weights_of(run for run in outcomes if not run.invalid)
    lines = []
    for name in dict.fromkeys(run.candidate for run in outcomes):
        own = [run for run in outcomes if run.candidate == name]
        valid = [run for run in own if not run.invalid]
        lines.append(
            CandidateScore(
                candidate=name,
                paper=_mean(paper[run.candidate, run.seed] for run in valid),
                robust=_mean(robust[run.candidate, run.seed] for run in valid),
                seeds=len(valid),
                invalid_seeds=len(own) - len(valid),
                collapsed_seeds=sum(run.collapsed for run in valid),
                weak_seeds=sum(run.weak_command for run in valid),
                components={part: _mean(run.components[part] for run in valid) for part in weights},
            )
        )
    return _by(lines, by)


def ranked(lines: Sequence[CandidateScore]) -> list[CandidateScore]:
    """The lines of candidates with two valid seeds; where nobody has two, of those with one."""
    fewest = _fewest(lines)
    return [line for line in lines if line.seeds >= fewest]


def leaders_disagree(lines: Sequence[CandidateScore]) -> bool:
    """Whether the two scores would crown different candidates of one ranking."""
    leaders = {_by(lines, score)[0].candidate for score in get_args(Score) if lines}
    return len(leaders) > 1


def _by(lines: Sequence[CandidateScore], score: Score) -> list[CandidateScore]:
    fewest = _fewest(lines)
    return sorted(lines, key=lambda line: (line.seeds < fewest, getattr(line, score), line.candidate))


def _fewest(lines: Sequence[CandidateScore]) -> int:
    return max(1, min(FEWEST_SEEDS, max((line.seeds for line in lines), default=1)))


def _mean(values: Iterable[float]) -> float:
    """The mean, or infinity where there is nothing, so that a candidate without a valid run comes last."""
    found = list(values)
    return fmean(found) if found else math.inf


def _ordinary(values: Sequence[float]) -> list[float]:
    """Mean and standard deviation."""
    return _standardised(values, fmean(values), pstdev(values)) if values else []


def _robust(values: Sequence[float]) -> list[float]:
    """Median and MAD; where more than half the values are equal the mean deviation stands in, so others still count."""
    if not values:
        return []
    centre = median(values)
    deviations = [abs(value - centre) for value in values]
    return _standardised(values, centre, 1.4826 * median(deviations) or 1.2533 * fmean(deviations))


def _standardised(values: Sequence[float], centre: float, spread: float) -> list[float]:
    """A component that varies by rounding errors only says nothing and contributes nothing."""
    if spread <= 1e-9 * max(abs(value) for value in values):
        return [0.0] * len(values)
    return [(value - centre) / spread for value in values]


def _component(run: RunOutcome, name: str, by: Score) -> float:
    if (name, by) != ("ssl", "robust"):
        return run.components[name]
    assert run.ssl_scale_free is not None
    return run.ssl_scale_free


def _check_finite(runs: Sequence[RunOutcome], weights: Mapping[str, float]) -> None:
    for run in runs:
        numbers = {name: run.components.get(name, math.nan) for name in weights}
        if "ssl" in weights:
            numbers["ssl_scale_free"] = math.nan if run.ssl_scale_free is None else run.ssl_scale_free
        bad = [name for name, value in numbers.items() if not math.isfinite(value)]
        if bad:
            raise ConfigError(
                f"Run '{run.candidate}' with seed {run.seed} has no finite value for {', '.join(bad)}.",
                expected="a run that is complete, or marked invalid with a reason",
                remedy="Run the search again for it, or inspect its bundle.",
            )
