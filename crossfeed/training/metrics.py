"""Forecast errors in z-space, summed on the device over batches and read once at the end.

B windows, H horizons, C sensors. Only present entries count.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from crossfeed.model.likelihood import gaussian_nll, student_t_nll
from crossfeed.model.prediction import Prediction


@dataclass(frozen=True, slots=True)
class ForecastScores:
    """Errors of one forecaster over a set of windows; None for what a point forecast (a Student-t: CRPS) lacks."""

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

    def add(self, x_BHC: Tensor, m_BHC: Tensor, forecast: Tensor | Prediction) -> None:
        """Take one batch of forecasts into account: means alone, or a prediction with its uncertainty."""
        mean_BHC = forecast.mean_BHC if isinstance(forecast, Prediction) else forecast
        error_BHC = torch.where(m_BHC, mean_BHC.double() - x_BHC.double(), 0.0)
        terms = {"count": m_BHC.double(), "squared": error_BHC.square(), "absolute": error_BHC.abs()}
        terms |= _uncertainty(error_BHC, forecast) if isinstance(forecast, Prediction) else {}
        for place, name in enumerate(self._names):
            entry_BHC = terms.get(name)
            self._sums_SHC[place] += torch.nan if entry_BHC is None else torch.where(m_BHC, entry_BHC, 0.0).sum(0)

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


def _uncertainty(error_BHC: Tensor, prediction: Prediction) -> dict[str, Tensor]:
    """NLL (constant included), CRPS and 90 % coverage of each entry under the predicted family."""
    log_variance_BHC = prediction.log_variance_BHC.double()
    inside_BHC = error_BHC.abs() <= prediction.quantile(0.95).double() - prediction.mean_BHC.double()
    terms = {"covered": inside_BHC.double()}
    if prediction.degrees_of_freedom_C is not None:
        dof_C = prediction.degrees_of_freedom_C.double()
        return terms | {"nll": student_t_nll(error_BHC, log_variance_BHC, dof_C)}
    deviation_BHC = (0.5 * log_variance_BHC).exp()
    return terms | {
        "nll": gaussian_nll(error_BHC, log_variance_BHC),
        "crps": gaussian_crps(error_BHC / deviation_BHC) * deviation_BHC,
    }


def gaussian_crps(ratio: Tensor) -> Tensor:
    """The continuous ranked probability score of a standard normal, at standardised errors."""
    density = (-0.5 * ratio.square()).exp() / math.sqrt(2.0 * math.pi)
    return ratio * torch.erf(ratio / math.sqrt(2.0)) + 2.0 * density - 1.0 / math.sqrt(math.pi)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
