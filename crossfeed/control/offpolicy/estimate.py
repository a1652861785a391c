"""Five estimates of what a policy would have earned, each with an interval over whole programs, or a refusal.

N runs, H stretches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from crossfeed.control.offpolicy.log import DecisionLog
from crossfeed.control.offpolicy.policy import LinearPolicy
from crossfeed.control.offpolicy.value import FittedQ, model_based
from crossfeed.errors import ConfigError

Method = Literal["importance", "weighted", "doubly_robust", "fitted_q", "model"]
METHODS: tuple[Method, ...] = ("importance", "weighted", "doubly_robust", "fitted_q", "model")
WEIGHTED: tuple[Method, ...] = ("importance", "weighted", "doubly_robust")
FEWEST = 10.0  # effective runs, below which a weighted mean says nothing
_FOLDS = 5
_MODEL_RESAMPLES = 60  # each of them learns a model and runs in it
_FEWEST_RUNS = 2 * _FOLDS


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
    log: DecisionLog, policy: LinearPolicy, method: Method = "doubly_robust", *, clip: float = 20.0, level: float = 0.9,
    resamples: int = 300, seed: int = 0,
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
        return PolicyValue(method, None, None, None, level, effective, clipped, why)
    draw = np.random.default_rng([seed, 5])
    count = min(resamples, _MODEL_RESAMPLES) if method == "model" else resamples
    picks = [draw.integers(0, len(log), len(log)) for _ in range(count)]
    value, spread = _estimators()[method](log, policy, ratio_NH, picks)
    low, high = np.quantile(spread, [0.5 - level / 2.0, 0.5 + level / 2.0])
    return PolicyValue(method, value, float(low), float(high), level, effective, clipped)


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


_Made = tuple[float, list[float]]
_Estimator = Callable[[DecisionLog, LinearPolicy, np.ndarray, list[np.ndarray]], _Made]


def _estimators() -> dict[Method, _Estimator]:
    return {
        "importance": _importance,
        "weighted": _weighted,
        "doubly_robust": _doubly_robust,
        "fitted_q": _fitted_q,
        "model": _model,
    }


def _importance(log: DecisionLog, policy: LinearPolicy, ratio_NH: np.ndarray, picks: list[np.ndarray]) -> _Made:  # noqa: ARG001
    score_N = (ratio_NH * log.reward_NH).sum(axis=1)
    return float(score_N.mean()), [float(score_N[pick].mean()) for pick in picks]


def _weighted(log: DecisionLog, policy: LinearPolicy, ratio_NH: np.ndarray, picks: list[np.ndarray]) -> _Made:  # noqa: ARG001
    def value(runs: np.ndarray) -> float:
        weight = ratio_NH[runs] / np.maximum(ratio_NH[runs].sum(axis=0), 1e-300)
        return float((weight * log.reward_NH[runs]).sum())

    return value(np.arange(len(log))), [value(pick) for pick in picks]


def _doubly_robust(log: DecisionLog, policy: LinearPolicy, ratio_NH: np.ndarray, picks: list[np.ndarray]) -> _Made:
    """Every run is corrected by a value that was fitted without it."""
    fold_N = np.random.default_rng(17).permutation(len(log)) % _FOLDS
    score_N = np.empty(len(log))
    before_NH = np.column_stack([np.ones(len(log)), ratio_NH[:, :-1]])
    for fold in range(_FOLDS):
        own = fold_N == fold
        fitted, held = FittedQ.of(log[~own], policy), log[own]
        correction = ratio_NH[own] * (log.reward_NH[own] - fitted.q(held)) + before_NH[own] * fitted.v(held)
        score_N[own] = correction.sum(axis=1)
    return float(score_N.mean()), [float(score_N[pick].mean()) for pick in picks]


def _fitted_q(log: DecisionLog, policy: LinearPolicy, ratio_NH: np.ndarray, picks: list[np.ndarray]) -> _Made:  # noqa: ARG001
    def value(runs: np.ndarray) -> float:
        part = log[runs]
        return float(FittedQ.of(part, policy).v(part)[:, 0].mean())

    return value(np.arange(len(log))), [value(pick) for pick in picks]


def _model(log: DecisionLog, policy: LinearPolicy, ratio_NH: np.ndarray, picks: list[np.ndarray]) -> _Made:  # noqa: ARG001
    found = [model_based(log[pick], policy, number) for number, pick in enumerate(picks)]
    return model_based(log, policy), found
