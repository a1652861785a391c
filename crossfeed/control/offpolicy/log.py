"""Logs for judging policies: programs cut into stretches, one override and one reward for each.

N runs of one program, H stretches each, F features. A CSV file has the columns run, stretch, override, reward and one
for each feature; `mean` and `spread` hold the override that was intended and its dither, where that was written down.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from crossfeed.atomic import atomic_file
from crossfeed.errors import TableError

_FIXED = ("run", "stretch", "override", "reward", "mean", "spread")
LEAST_DITHER, MOST_DITHER = 0.02, 0.05


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


_ARRAYS = ("state_NHF", "override_NH", "reward_NH", "mean_NH", "spread_NH")


def normal_log_density(value: np.ndarray, mean: np.ndarray, spread: np.ndarray | float) -> np.ndarray:
    return np.asarray(-0.5 * ((value - mean) / spread) ** 2 - np.log(spread) - 0.5 * np.log(2.0 * np.pi))


def read_log(path: Path | str) -> DecisionLog:
    """Read a CSV; where nobody wrote down what was intended, propensities are fitted to the overrides themselves."""
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
        known = np.column_stack([np.ones(runs), log.state_NHF[:, stretch]])
        weights, *_ = np.linalg.lstsq(known, log.override_NH[:, stretch], rcond=1e-8)
        mean_NH[:, stretch] = known @ weights
    parameters = 1 + log.state_NHF.shape[2]
    spare = max(runs - parameters, 1)
    spread_H = np.sqrt(((log.override_NH - mean_NH) ** 2).sum(axis=0) / spare)
    return replace(log, mean_NH=mean_NH, spread_NH=np.broadcast_to(spread_H, mean_NH.shape).copy())


def _checked(log: DecisionLog) -> DecisionLog:
    if float(np.median(log.spread_NH)) < 1e-3:
        raise TableError(
            "The logged overrides hardly vary, so nothing can be learned about other ones.",
            expected=f"a dither of {LEAST_DITHER:.0%} to {MOST_DITHER:.0%} around the intended override",
            remedy="Collect some runs with dither; docs/control.md has the recipe.",
        )
    return replace(log, spread_NH=np.maximum(log.spread_NH, 1e-3))
