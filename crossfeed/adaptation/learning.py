"""One step of adaptation: the mean learns from what was observed, the spread from errors made in advance.

Plain likelihood on a handful of windows teaches the spread how well the model remembers them, and the intervals come
out too narrow. Here the spread is judged by the errors the forecaster made before it learned from those windows.
B windows, H horizons, C sensors.
"""

import torch
from torch import Tensor

from crossfeed.adaptation.parameters import Adaptable, Prepared
from crossfeed.distribution import Distribution
from crossfeed.errors import ForecastError
from crossfeed.windows.windows import WindowBatch


@torch.no_grad()
def errors_in_advance(forecaster: Adaptable, batch: WindowBatch) -> Tensor:
    """What the forecaster gets wrong as it is now; zero where nothing was observed."""
    return observed_errors(forecaster.predict(batch), batch)


def observed_errors(forecast: Distribution, batch: WindowBatch) -> Tensor:
    """The errors of a forecast whose targets are in the batch; zero where nothing was observed."""
    return torch.where(batch.future_m_BHC, batch.future_x_BHC - forecast.mean, 0.0).detach()


def update(
    prepared: Prepared, batch: WindowBatch, ahead_BHC: Tensor, optimiser: torch.optim.Optimizer, clip_norm: float
) -> None:
    """One step on the present targets (absent channels are never regressed); `ahead_BHC` are the errors in advance."""
    name = prepared.forecaster.name
    with torch.enable_grad():
        forecast = prepared.forecaster.predict(batch)
        present = batch.future_m_BHC
        x_BHC = torch.where(present, batch.future_x_BHC, 0.0)
        towards_truth = forecast.fixed_shape().nll(x_BHC)
        about_errors = forecast.with_mean(x_BHC - ahead_BHC).nll(x_BHC)
        if towards_truth is None or about_errors is None:
            raise ForecastError(
                f"Forecaster '{name}' claims no density, so it cannot be adapted by likelihood.",
                expected="a Gaussian or mixture forecast",
            )
        loss = torch.where(present, towards_truth + about_errors, 0.0).sum() / present.sum().clamp_min(1)
    if not bool(torch.isfinite(loss)):
        raise ForecastError(
            f"Adapting '{name}' led to a likelihood that is no number.", remedy="Use a smaller learning rate."
        )
    optimiser.zero_grad()
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(prepared.parameters, clip_norm)
    optimiser.step()
