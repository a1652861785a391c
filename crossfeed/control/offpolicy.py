"""What a policy would have earned, judged from logs of another one by weighted importance sampling.

Programs are cut into stretches, with one override and one reward for each: N runs of one program, H stretches each, F
features. A CSV file has the columns run, stretch, override, reward and one for each feature; `mean` and `spread` hold
the override that was intended and its dither, where that was written down.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import Field

from crossfeed.configuration import CheckedForm, load_yaml, parse
from crossfeed.errors import ConfigError, TableError
from crossfeed.files import atomic_file

_FIXED = ("run", "stretch", "override", "reward", "mean", "spread")
_LEAST_DITHER, _MOST_DITHER = 0.02, 0.05
_ARRAYS = ("state_NHF", "override_NH", "reward_NH", "mean_NH", "spread_NH")
_FEWEST_EFFECTIVE = 10.0  # runs, below which a weighted mean says nothing
_FEWEST_RUNS = 10
_LEVEL = 0.9  # of the interval
_SEED = [0, 5]  # of the resampled runs


@dataclass(frozen=True, eq=False)
class DecisionLog:
    """N whole programs; propensities are those of a normal dither around an intended override."""

    features: tuple[str, ...]
    state_NHF: np.ndarray
    override_NH: np.ndarray
    reward_NH: np.ndarray
    mean_NH: np.ndarray
    spread_NH: np.ndarray

    def __len__(self) -> int:
        return len(self.override_NH)

    def __getitem__(self, runs: np.ndarray) -> "DecisionLog":
        parts = {name: getattr(self, name)[runs] for name in _ARRAYS}
        return replace(self, **parts)

    def log_density(self) -> np.ndarray:
        """How likely (N, H) each logged override was."""
        return normal_log_density(self.override_NH, self.mean_NH, self.spread_NH)

    def write(self, path: Path | str) -> None:
        """As CSV."""
        runs, stretches = self.override_NH.shape
        columns = {
            "run": np.repeat(np.arange(runs), stretches),
            "stretch": np.tile(np.arange(stretches), runs),
            "override": self.override_NH.ravel(),
            "reward": self.reward_NH.ravel(),
            "mean": self.mean_NH.ravel(),
            "spread": self.spread_NH.ravel(),
            **{name: self.state_NHF[..., n].ravel() for n, name in enumerate(self.features)},
        }
        with atomic_file(path) as temporary:
            pl.DataFrame(columns).write_csv(temporary)


def normal_log_density(value: np.ndarray, mean: np.ndarray, spread: np.ndarray | float) -> np.ndarray:
    return np.asarray(-0.5 * ((value - mean) / spread) ** 2 - np.log(spread) - 0.5 * np.log(2.0 * np.pi))


def read_log(path: Path | str) -> DecisionLog:
    """Read a CSV; where the intended override is missing, propensities are fitted to the overrides themselves."""
    try:
        frame = pl.read_csv(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise TableError(f"The log {path} cannot be read: {error}", expected="a CSV file") from error
    missing = [name for name in _FIXED[:4] if name not in frame.columns]
    if missing:
        raise TableError(f"The log {path} has no column {missing[0]}.", expected=f"the columns {', '.join(_FIXED[:4])}")
    counts = frame.group_by("run").len()["len"].unique().to_list()
    if len(counts) != 1:
        raise TableError(
            f"The runs of {path} have between {min(counts)} and {max(counts)} stretches.",
            expected="runs of one program, cut at the same places",
        )
    frame = frame.sort("run", "stretch")
    shape = (-1, counts[0])
    features = tuple(name for name in frame.columns if name not in _FIXED)
    numbers = frame.select(pl.all().cast(pl.Float64)).to_numpy()
    if not np.isfinite(numbers).all():
        raise TableError(f"The log {path} has values that are no numbers.", expected="a number in every cell")
    values = {name: frame[name].to_numpy().astype(float).reshape(shape) for name in frame.columns}
    state = np.stack([values[name] for name in features], -1) if features else np.empty((*values["override"].shape, 0))
    zero = np.zeros_like(values["override"])
    log = DecisionLog(features, state, values["override"], values["reward"], zero, zero)
    if "mean" in values and "spread" in values:
        return _checked(replace(log, mean_NH=values["mean"], spread_NH=values["spread"]))
    return _checked(with_fitted_propensities(log))


def with_fitted_propensities(log: DecisionLog) -> DecisionLog:
    """Take the intended override as linear in the features, stretch by stretch, and the rest as dither."""
    runs, stretches = log.override_NH.shape
    mean_NH = np.empty((runs, stretches))
    for stretch in range(stretches):
        inputs = np.column_stack([np.ones(runs), log.state_NHF[:, stretch]])
        weights, *_ = np.linalg.lstsq(inputs, log.override_NH[:, stretch], rcond=1e-8)
        mean_NH[:, stretch] = inputs @ weights
    parameters = 1 + log.state_NHF.shape[2]
    spare = max(runs - parameters, 1)
    spread_H = np.sqrt(((log.override_NH - mean_NH) ** 2).sum(axis=0) / spare)
    return replace(log, mean_NH=mean_NH, spread_NH=np.broadcast_to(spread_H, mean_NH.shape).copy())


def _checked(log: DecisionLog) -> DecisionLog:
    if float(np.median(log.spread_NH)) < 1e-3:
        raise TableError(
            "The logged overrides hardly vary, so nothing can be learned about other ones.",
            expected=f"a dither of {_LEAST_DITHER:.0%} to {_MOST_DITHER:.0%} around the intended override",
            remedy="Collect some runs with dither; docs/control.md has the recipe.",
        )
    return replace(log, spread_NH=np.maximum(log.spread_NH, 1e-3))


class LinearPolicyConfig(CheckedForm):
    """As it stands in a YAML file: override = intercept + sum of weight x feature, and its dither."""

    intercept: float = Field(default=1.0, gt=0.0, le=2.0)
    weights: dict[str, float] = {}
    spread: float = Field(default=0.03, gt=0.0, le=0.3)


@dataclass(frozen=True, eq=False)
class LinearPolicy:
    """override ~ Normal(intercept + state . weights, spread)."""

    intercept: float
    weights_F: np.ndarray
    spread: float

    @classmethod
    def of(cls, config: LinearPolicyConfig, features: tuple[str, ...]) -> "LinearPolicy":
        """A policy over the features of a log."""
        unknown = [feature for feature in config.weights if feature not in features]
        if unknown:
            raise ConfigError(
                f"The policy looks at '{unknown[0]}', which the log does not have.",
                expected=f"some of {', '.join(features) or 'no features'}",
            )
        weights = np.array([config.weights.get(feature, 0.0) for feature in features])
        return cls(config.intercept, weights, config.spread)

    def mean(self, state_xF: np.ndarray) -> np.ndarray:
        return np.asarray(self.intercept + state_xF @ self.weights_F)

    def log_density(self, state_xF: np.ndarray, override_x: np.ndarray) -> np.ndarray:
        return normal_log_density(override_x, self.mean(state_xF), self.spread)


def read_policy(path: Path | str, features: tuple[str, ...]) -> LinearPolicy:
    """A policy from a YAML file."""
    content = load_yaml(path, "The policy") or {}
    return LinearPolicy.of(parse(LinearPolicyConfig, content, f"The policy in {path}"), features)


@dataclass(frozen=True)
class PolicyValue:
    """What a policy would have earned in a run, or why that cannot be said."""

    value: float | None
    low: float | None
    high: float | None
    level: float
    effective: float  # runs that count, of those that are there
    clipped: float  # share of the weights that were cut
    refused: str = ""


def judge(log: DecisionLog, policy: LinearPolicy, *, clip: float = 20.0, resamples: int = 300) -> PolicyValue:
    """The mean reward of a run under a policy with an interval over whole runs, refused where hardly any run counts."""
    if len(log) < _FEWEST_RUNS:
        raise ConfigError(f"The log has {len(log)} runs.", expected=f"at least {_FEWEST_RUNS}; hundreds are better")
    ratio_NH, clipped = ratios(log, policy, clip)
    effective = effective_size(ratio_NH[:, -1])
    if effective < _FEWEST_EFFECTIVE:
        why = (
            f"only {effective:.1f} of {len(log)} runs would count: in {log.override_NH.shape[1]} stretches this policy"
            " is too far from what was logged; stay nearer, dither more, or collect more runs"
        )
        return PolicyValue(None, None, None, _LEVEL, effective, clipped, why)
    draw = np.random.default_rng(_SEED)

    def value(runs: np.ndarray) -> float:
        weight_NH = ratio_NH[runs] / np.maximum(ratio_NH[runs].sum(axis=0), 1e-300)
        return float((weight_NH * log.reward_NH[runs]).sum())

    spread = [value(draw.integers(0, len(log), len(log))) for _ in range(resamples)]
    low, high = np.quantile(spread, [0.5 - _LEVEL / 2.0, 0.5 + _LEVEL / 2.0])
    return PolicyValue(value(np.arange(len(log))), float(low), float(high), _LEVEL, effective, clipped)


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
