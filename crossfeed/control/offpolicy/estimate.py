"""Five estimates of what a policy would have earned, each with an interval over whole programs, or a refusal.

N runs, H stretches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from crossfeed.control.offpolicy.log import DecisionLog
from crossfeed.control.offpolicy.policy import LinearPolicy
from crossfeed.control.offpolicy.value import FittedQ, model_based
from crossfeed.errors import ConfigError

Method = Literal["importance", "weighted", "doubly_robust", "fitted_q", "model"]
METHODS: tuple[Method, ...] = get_args(Method)
WEIGHTED: tuple[Method, ...] = ("importance", "weighted", "doubly_robust")
FEWEST = 10.0  # effective runs, below which a weighted mean says nothing
_LEVEL = 0.9  # of the interval
_FOLDS = 5
_MODEL_RESAMPLES = 60  # each of them learns a model and runs in it
_FEWEST_RUNS = 2 * _FOLDS
_Value = Callable[[np.ndarray, int], float]  # what some of the runs say, with a seed where one is needed


@dataclass(frozen=True)
class PolicyValue:
    """What a policy would have earned in a run, or why nobody can say."""

    method: Method
    value: float | None
    low: float | None
    high: float | None
    level: float
    effective: float  # runs that count, of those that are there
    clipped: float  # share of the weights that were cut
    refused: str = ""


def judge(
    log: DecisionLog, policy: LinearPolicy, method: Method = "doubly_robust", *, clip: float = 20.0,
    resamples: int = 300,
) -> PolicyValue:  # fmt: skip
    """The mean reward of a run under a policy; weighted methods refuse where hardly any run counts."""
    if len(log) < _FEWEST_RUNS:
        raise ConfigError(f"The log has {len(log)} runs.", expected=f"at least {_FEWEST_RUNS}; hundreds are better")
    ratio_NH, clipped = ratios(log, policy, clip)
    effective = effective_size(ratio_NH[:, -1])
    if method in WEIGHTED and effective < FEWEST:
        why = (
            f"only {effective:.1f} of {len(log)} runs would count: in {log.override_NH.shape[1]} stretches this policy"
            " is too far from what was logged; stay nearer, dither more, or collect more runs"
        )
        return PolicyValue(method, None, None, None, _LEVEL, effective, clipped, why)
    draw = np.random.default_rng([0, 5])
    count = min(resamples, _MODEL_RESAMPLES) if method == "model" else resamples
    value = _ESTIMATORS[method](log, policy, ratio_NH)
    spread = [value(draw.integers(0, len(log), len(log)), number) for number in range(count)]
    low, high = np.quantile(spread, [0.5 - _LEVEL / 2.0, 0.5 + _LEVEL / 2.0])
    return PolicyValue(method, value(np.arange(len(log)), 0), float(low), float(high), _LEVEL, effective, clipped)


def ratios(log: DecisionLog, policy: LinearPolicy, clip: float) -> tuple[np.ndarray, float]:
    """Weights (N, H) of each run up to each stretch, cut at `clip`, and the share of them that was cut."""
    steps = policy.log_density(log.state_NHF, log.override_NH) - log.log_density()
    weight_NH = np.exp(np.minimum(np.cumsum(steps, axis=1), 50.0))
    return np.minimum(weight_NH, clip), float((weight_NH > clip).mean())


def effective_size(weight_N: np.ndarray) -> float:
    """How many equally weighted runs would be as good (Kish); weights that are small throughout count for nothing.

    Weights are 1 on average where the log supports the policy at all, so their sum is the most that can count.
    """
    total = float(weight_N.sum())
    return min(total**2 / max(float((weight_N**2).sum()), 1e-300), total)


def _of_runs(score_N: np.ndarray) -> _Value:
    """Where every run has a score of its own."""
    return lambda runs, _: float(score_N[runs].mean())


def _importance(log: DecisionLog, _: LinearPolicy, ratio_NH: np.ndarray) -> _Value:
    return _of_runs((ratio_NH * log.reward_NH).sum(axis=1))


def _weighted(log: DecisionLog, _: LinearPolicy, ratio_NH: np.ndarray) -> _Value:
    def value(runs: np.ndarray, _: int) -> float:
        weight = ratio_NH[runs] / np.maximum(ratio_NH[runs].sum(axis=0), 1e-300)
        return float((weight * log.reward_NH[runs]).sum())

    return value


def _doubly_robust(log: DecisionLog, policy: LinearPolicy, ratio_NH: np.ndarray) -> _Value:
    """Every run is corrected by a value that was fitted without it."""
    fold_N = np.random.default_rng(17).permutation(len(log)) % _FOLDS
    score_N = np.empty(len(log))
    before_NH = np.column_stack([np.ones(len(log)), ratio_NH[:, :-1]])
    for fold in range(_FOLDS):
        own = fold_N == fold
        fitted, held = FittedQ.of(log[~own], policy), log[own]
        correction = ratio_NH[own] * (log.reward_NH[own] - fitted.q(held)) + before_NH[own] * fitted.v(held)
        score_N[own] = correction.sum(axis=1)
    return _of_runs(score_N)


def _fitted_q(log: DecisionLog, policy: LinearPolicy, _: np.ndarray) -> _Value:
    return lambda runs, _: float(FittedQ.of(log[runs], policy).v(log[runs])[:, 0].mean())


def _model(log: DecisionLog, policy: LinearPolicy, _: np.ndarray) -> _Value:
    return lambda runs, seed: model_based(log[runs], policy, seed)


_ESTIMATORS: dict[Method, Callable[[DecisionLog, LinearPolicy, np.ndarray], _Value]] = {
    "importance": _importance,
    "weighted": _weighted,
    "doubly_robust": _doubly_robust,
    "fitted_q": _fitted_q,
    "model": _model,
}
