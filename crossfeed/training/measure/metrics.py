"""Forecast errors in z-space, summed on the device over batches and read once at the end.

B windows, H horizons, C sensors. Only present entries count. The RMSE is that of the mean, the MAE that of the median:
each error has its own best guess.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from crossfeed.distribution import Distribution


@dataclass(frozen=True, slots=True)
class ForecastScores:
    """Errors of one forecaster over a set of windows; None for what a point forecast lacks."""

    rmse: float
    mae: float
    rmse_by_horizon: dict[int, float | None]
    rmse_by_channel: dict[str, float | None]
    nll: float | None
    crps: float | None
    coverage90: float | None


class ForecastSums:
    """Running sums for one forecaster; `add` never asks the host for a number."""

    def __init__(self, horizons: tuple[int, ...], sensors: tuple[str, ...], device: torch.device) -> None:
        self.horizons, self.sensors = horizons, sensors
        self._names = ("count", "squared", "absolute", "nll", "crps", "covered")
        shape = (len(self._names), len(horizons), len(sensors))
        self._sums_SHC = torch.zeros(shape, dtype=torch.float64, device=device)

    def add(self, x_BHC: Tensor, m_BHC: Tensor, forecast: Distribution) -> None:
        """Take one batch of forecasts into account."""
        forecast = forecast.double()
        mean_BHC = forecast.mean
        x_BHC = torch.where(m_BHC, x_BHC.double(), mean_BHC)
        terms = {
            "count": torch.ones_like(x_BHC),
            "squared": (x_BHC - mean_BHC).square(),
            "absolute": (x_BHC - forecast.median).abs(),
            "nll": forecast.nll(x_BHC),
            "crps": forecast.crps(x_BHC),
            "covered": ((forecast.cdf(x_BHC) - 0.5).abs() <= 0.45).double() if forecast.has_intervals else None,
        }
        for index, name in enumerate(self._names):
            entry_BHC = terms[name]
            self._sums_SHC[index] += torch.nan if entry_BHC is None else torch.where(m_BHC, entry_BHC, 0.0).sum(0)

    def scores(self) -> ForecastScores:
        """The averages over all present entries; this reads from the device."""
        sums = dict(zip(self._names, self._sums_SHC.cpu(), strict=True))
        count_HC, squared_HC = sums["count"], sums["squared"]
        by_horizon = (squared_HC.sum(1) / count_HC.sum(1)).sqrt().tolist()
        by_channel = (squared_HC.sum(0) / count_HC.sum(0)).sqrt().tolist()
        mean = {name: float(part.sum() / count_HC.sum()) for name, part in sums.items()}
        return ForecastScores(
            rmse=math.sqrt(mean["squared"]),
            mae=mean["absolute"],
            rmse_by_horizon={number: _known(value) for number, value in zip(self.horizons, by_horizon, strict=True)},
            rmse_by_channel={name: _known(value) for name, value in zip(self.sensors, by_channel, strict=True)},
            nll=_known(mean["nll"]),
            crps=_known(mean["crps"]),
            coverage90=_known(mean["covered"]),
        )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
