"""Forecast errors in z-space, summed on the device over batches and read once at the end.

B windows, H horizons, C sensors. Only present entries count.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
TWO_SIDED_90 = 1.6448536269514722


@dataclass(frozen=True, slots=True)
class ForecastScores:
    """Errors of one forecaster over a set of windows; the probabilistic ones are None for a point forecast."""

    rmse: float
    mae: float
    rmse_by_horizon: dict[int, float]
    rmse_by_channel: dict[str, float | None]
    nll: float | None = None
    crps: float | None = None
    coverage90: float | None = None


class ForecastSums:
    """Running sums for one forecaster; `add` never asks the host for a number."""

    def __init__(self, horizons: int, sensors: int, device: torch.device) -> None:
        self._sums_SHC = torch.zeros(6, horizons, sensors, dtype=torch.float64, device=device)
        self._probabilistic = False

    def add(self, x_BHC: Tensor, m_BHC: Tensor, mean_BHC: Tensor, log_variance_BHC: Tensor | None = None) -> None:
        """Take one batch of forecasts into account."""
        error_BHC = torch.where(m_BHC, mean_BHC.double() - x_BHC.double(), 0.0)
        terms = [m_BHC.double(), error_BHC.square(), error_BHC.abs()]
        if log_variance_BHC is not None:
            self._probabilistic = True
            deviation_BHC = (0.5 * log_variance_BHC.double()).exp()
            ratio_BHC = error_BHC / deviation_BHC
            nll_BHC = 0.5 * ratio_BHC.square() + deviation_BHC.log() + HALF_LOG_TWO_PI
            terms += [nll_BHC, _gaussian_crps(ratio_BHC) * deviation_BHC, (ratio_BHC.abs() <= TWO_SIDED_90).double()]
        for place, term_BHC in enumerate(terms):
            self._sums_SHC[place] += torch.where(m_BHC, term_BHC, 0.0).sum(0)

    def scores(self, horizons: tuple[int, ...], sensors: tuple[str, ...]) -> ForecastScores:
        """The averages over all present entries; this reads from the device."""
        sums_SHC = self._sums_SHC.cpu()
        count_HC, squared_HC, absolute_HC = sums_SHC[:3]
        total = float(count_HC.sum())
        by_horizon = (squared_HC.sum(1) / count_HC.sum(1)).sqrt().tolist()
        by_channel = (squared_HC.sum(0) / count_HC.sum(0)).sqrt().tolist()
        soft = [float(part.sum()) / total if self._probabilistic else None for part in sums_SHC[3:]]
        return ForecastScores(
            rmse=math.sqrt(float(squared_HC.sum()) / total),
            mae=float(absolute_HC.sum()) / total,
            rmse_by_horizon=dict(zip(horizons, by_horizon, strict=True)),
            rmse_by_channel={
                name: None if math.isnan(value) else value for name, value in zip(sensors, by_channel, strict=True)
            },
            nll=soft[0],
            crps=soft[1],
            coverage90=soft[2],
        )


def _gaussian_crps(ratio: Tensor) -> Tensor:
    """The continuous ranked probability score of a standard normal, at standardised errors."""
    density = (-0.5 * ratio.square()).exp() / math.sqrt(2.0 * math.pi)
    return ratio * torch.erf(ratio / math.sqrt(2.0)) + 2.0 * density - 1.0 / math.sqrt(math.pi)
