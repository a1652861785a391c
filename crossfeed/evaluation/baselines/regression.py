"""What a plant data scientist would try first: ridge regression in closed form, and gradient-boosted trees.

Both forecast the change since the last present value from the window and the planned commands. Ridge has one penalty
for all channels, chosen on validation; the trees (which need lightgbm) have one booster per channel, with the horizon
among its predictors. N windows, P predictors, C sensors, A commands, H horizons, O = H * C outputs.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ConfigError, ForecastError, need
from crossfeed.evaluation.baselines.budget import Budget
from crossfeed.evaluation.baselines.network import Features, NetworkInputs, Shape
from crossfeed.evaluation.forecaster import Learner, batches, learned_spread
from crossfeed.model.distribution import Gaussian
from crossfeed.progress import progress
from crossfeed.training.health import persistence, ridge_weights
from crossfeed.training.seeds import spread_out
from crossfeed.windows.windows import WindowBatch, WindowSet

_PENALTIES = tuple(10.0**power for power in range(-4, 2))


class RidgeForecaster(Learner):
    """Linear in everything it sees; the spread is that of its own errors."""

    name = "ridge"

    def __init__(self, inputs: NetworkInputs) -> None:
        self.uses_future_commands = inputs.plan
        self.penalty = math.nan
        self._inputs = inputs
        self._features: Features | None = None
        self._weight_PO, self._offset_O, self._spread_HC = torch.zeros(0), torch.zeros(0), torch.zeros(0)

    @property
    def parameters(self) -> int:
        return self._weight_PO.numel() + self._offset_O.numel()

    @property
    def details(self) -> dict[str, Any]:
        return {"penalty": self.penalty}

    def fit(self, train: WindowSet, validation: WindowSet, seed: int) -> None:  # noqa: ARG002
        """Solve for every penalty and keep the one with the lowest validation RMSE; there is nothing random."""
        shape = Shape.of(train)
        self._features = Features(shape, self._inputs).to(train.x_NC.device)
        solutions = self._solve(train, shape)
        scores = []
        for self._weight_PO, self._offset_O in solutions:
            squared = 0.0
            for batch in batches(validation, torch.arange(len(validation))):
                error = (self._mean(batch) - batch.future_x_BHC) * batch.future_m_BHC
                squared += float(error.square().sum())
            scores.append(squared)
        chosen = scores.index(min(scores))
        self.penalty, (self._weight_PO, self._offset_O) = _PENALTIES[chosen], solutions[chosen]
        self._spread_HC = learned_spread(self._mean, train, validation)

    def predict(self, batch: WindowBatch) -> Gaussian:
        if self._features is None:
            raise ForecastError("Forecaster 'ridge' was asked before it was fitted.", remedy="Call fit first.")
        mean_BHC = self._mean(batch)
        return Gaussian(mean_BHC, self._spread_HC.to(mean_BHC).expand_as(mean_BHC))

    def _predictors(self, batch: WindowBatch) -> Tensor:
        assert self._features is not None
        context_BN = self._features.context(batch).flatten(1)
        return torch.cat([context_BN, self._features.plan(batch)[:, -1]], dim=1).double()

    def _mean(self, batch: WindowBatch) -> Tensor:
        change_BO = self._predictors(batch) @ self._weight_PO + self._offset_O
        last_BHC = persistence(batch.x_BKC, batch.m_BKC, range(batch.future_x_BHC.shape[1]))
        return last_BHC + change_BO.view_as(last_BHC).float()

    def _solve(self, train: WindowSet, shape: Shape) -> list[tuple[Tensor, Tensor]]:
        """Weights for every penalty; outputs with the same present rows share one factorisation."""
        parts = []
        for batch in batches(train, torch.arange(len(train))):
            last_BHC = persistence(batch.x_BKC, batch.m_BKC, shape.horizons)
            change_BHC = (batch.future_x_BHC - last_BHC).double()
            parts.append((self._predictors(batch), change_BHC.flatten(1), batch.future_m_BHC.flatten(1)))
        x_NP, y_NO, present_NO = (torch.cat(column) for column in zip(*parts, strict=True))
        weight = torch.zeros(len(_PENALTIES), x_NP.shape[1], y_NO.shape[1], dtype=torch.float64, device=x_NP.device)
        offset = torch.zeros(len(_PENALTIES), y_NO.shape[1], dtype=torch.float64, device=x_NP.device)
        patterns, group_O = torch.unique(present_NO.T, dim=0, return_inverse=True)
        for number, rows_N in enumerate(patterns):
            if rows_N.any():
                outputs = (group_O == number).nonzero().squeeze(-1)
                solved = _ridge(x_NP[rows_N], y_NO[rows_N][:, outputs])
                weight[:, :, outputs], offset[:, outputs] = solved
        return list(zip(weight, offset, strict=True))


def _ridge(x_NP: Tensor, y_NO: Tensor) -> tuple[Tensor, Tensor]:
    """Centred ridge for every penalty (in units of the mean predictor variance times the rows)."""
    centre_P, level_O = x_NP.mean(0), y_NO.mean(0)
    x_NP = x_NP - centre_P
    gram_PP, moment_PO = x_NP.T @ x_NP, x_NP.T @ (y_NO - level_O)
    unit_P = gram_PP.diagonal().mean().clamp(min=1e-12).expand(len(gram_PP))
    weight = torch.stack([ridge_weights(gram_PP, moment_PO, penalty * unit_P) for penalty in _PENALTIES])
    return weight, level_O - centre_P @ weight


_SENSOR_LAGS, _COMMAND_LAGS = (0, 1, 2, 4, 8, 16), (0, 1, 4)
_SETTINGS = {
    "objective": "regression", "learning_rate": 0.05, "num_leaves": 31, "min_data_in_leaf": 40, "feature_fraction": 0.6,
    "bagging_fraction": 0.8, "bagging_freq": 1, "deterministic": True, "force_row_wise": True, "verbosity": -1,
}  # fmt: skip
_PATIENCE = 25


def lightgbm() -> Any:
    """The optional library, or an error that names what to install: the extra, or the system library it loads."""
    try:
        return need("lightgbm", "The baseline 'trees'", "trees")
    except OSError as error:
        raise ConfigError(
            f"lightgbm is installed but cannot be loaded: {error}.",
            remedy="Install the system's OpenMP library (Debian and Ubuntu: apt install libgomp1).",
        ) from error


def missing_library() -> str:
    """Why the trees cannot run here, and what to do; empty when they can."""
    try:
        lightgbm()
    except ConfigError as error:
        return f"{error.found} {error.remedy}"
    return ""


class TreesForecaster(Learner):
    """Absent values go in as missing, which the trees handle themselves; the spread is that of their own errors."""

    name = "trees"

    def __init__(self, budget: Budget, uses_future_commands: bool = True) -> None:
        self.uses_future_commands = uses_future_commands
        self._budget, self._library = budget, lightgbm()
        self._boosters: list[Any] = []
        self._horizons: tuple[int, ...] = ()
        self._spread_HC = torch.zeros(0)

    @property
    def parameters(self) -> int:
        """Leaves of all trees."""
        dumps = [booster.dump_model()["tree_info"] for booster in self._boosters if booster is not None]
        return sum(int(tree["num_leaves"]) for trees in dumps for tree in trees)

    def fit(self, train: WindowSet, validation: WindowSet, seed: int) -> None:
        self._horizons = train.horizons
        x_train, y_train = self._examples(train)
        x_validation, y_validation = self._examples(validation)
        settings = _SETTINGS | {"seed": seed, "num_threads": torch.get_num_threads()}
        self._boosters = []
        with progress("trees", y_train.shape[1]) as task:
            for channel in range(y_train.shape[1]):
                known, held = np.isfinite(y_train[:, channel]), np.isfinite(y_validation[:, channel])
                booster = None
                if known.any():
                    data = self._library.Dataset(x_train[known], y_train[known, channel])
                    others = [data.create_valid(x_validation[held], y_validation[held, channel])] if held.any() else []
                    stop = [self._library.early_stopping(_PATIENCE, verbose=False)] if others else []
                    rounds = self._budget.tree_rounds
                    booster = self._library.train(settings, data, rounds, valid_sets=others, callbacks=stop)
                self._boosters.append(booster)
                task.advance()
        self._spread_HC = learned_spread(self._mean, train, validation)

    def predict(self, batch: WindowBatch) -> Gaussian:
        if not self._boosters:
            raise ForecastError("Forecaster 'trees' was asked before it was fitted.", remedy="Call fit first.")
        mean_BHC = self._mean(batch)
        return Gaussian(mean_BHC, self._spread_HC.to(mean_BHC).expand_as(mean_BHC))

    def _mean(self, batch: WindowBatch) -> Tensor:
        last_BHC = persistence(batch.x_BKC, batch.m_BKC, self._horizons)
        rows = self._predictors(batch)
        changes = [np.zeros(len(rows)) if booster is None else booster.predict(rows) for booster in self._boosters]
        change = torch.from_numpy(np.stack(changes, axis=-1)).to(last_BHC)
        return last_BHC + change.view_as(last_BHC)

    def _examples(self, windows: WindowSet) -> tuple[np.ndarray, np.ndarray]:
        """Predictors (N * H, P) and changes (N * H, C), NaN where the target is absent."""
        parts = []
        for batch in batches(windows, spread_out(len(windows), self._budget.tree_windows)):
            change = batch.future_x_BHC - persistence(batch.x_BKC, batch.m_BKC, self._horizons)
            change = torch.where(batch.future_m_BHC, change, torch.nan)
            parts.append((self._predictors(batch), change.flatten(0, 1).cpu().numpy()))
        predictors, changes = zip(*parts, strict=True)
        return np.concatenate(predictors), np.concatenate(changes)

    def _predictors(self, batch: WindowBatch) -> np.ndarray:
        """Lags, window mean and spread of each sensor, lagged commands, the plan up to h, and h itself."""
        x_BKC = torch.where(batch.m_BKC, batch.x_BKC, torch.nan)
        rows, slots = x_BKC.shape[1], len(self._horizons)
        mean_BC = x_BKC.nanmean(1)
        spread_BC = (x_BKC - mean_BC[:, None]).square().nanmean(1).sqrt()
        lags = [x_BKC[:, -1 - lag] for lag in _SENSOR_LAGS if lag < rows]
        past = [batch.a_BKA[:, -1 - lag] for lag in _COMMAND_LAGS if lag < rows]
        state_BP = torch.cat([*lags, mean_BC, spread_BC, *past], dim=1)
        parts = [state_BP[:, None].expand(-1, slots, -1)]
        horizon_H = torch.tensor(self._horizons, device=x_BKC.device)
        if self.uses_future_commands:
            next_BHA = batch.future_a_BTA[:, :1].expand(-1, slots, -1)
            parts += [batch.mean_a_BHA, batch.future_a_BTA[:, horizon_H - 1], next_BHA]
        parts.append(horizon_H[None, :, None].expand(len(x_BKC), -1, -1).to(x_BKC.dtype))
        return torch.cat(parts, dim=-1).flatten(0, 1).cpu().numpy()
