"""Ridge regression on the flattened window and the planned commands, in closed form.

It forecasts the change since the last present value. One penalty for all channels, chosen on validation.
N windows, P predictors, C sensors, H horizons, O = H * C outputs.
"""

import math
from typing import Any

import torch
from torch import Tensor

from crossfeed.baselines.inputs import Features, NetworkInputs, Shape
from crossfeed.distribution import Gaussian
from crossfeed.errors import ForecastError
from crossfeed.evaluation.forecaster import Learner, batches, learned_spread
from crossfeed.training.measure.floors import persistence
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
    """Centred ridge for every penalty (in units of the mean predictor variance times the rows), by one eigensystem."""
    centre_P, level_O = x_NP.mean(0), y_NO.mean(0)
    x_NP = x_NP - centre_P
    value_P, vector_PP = torch.linalg.eigh(x_NP.T @ x_NP)
    projected_PO = vector_PP.T @ (x_NP.T @ (y_NO - level_O))
    unit = value_P.mean().clamp(min=1e-12)
    weights = [vector_PP @ (projected_PO / (value_P.clamp(min=0.0) + power * unit)[:, None]) for power in _PENALTIES]
    weight = torch.stack(weights)
    return weight, level_O - centre_P @ weight
