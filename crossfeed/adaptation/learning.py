"""One step of adaptation: the mean learns from what was observed, the spread from errors made in advance.

Plain likelihood on a handful of windows teaches the spread how well the model remembers them, and the intervals come
out too narrow. Here the spread is judged by the errors the forecaster made before it learned from those windows.
The paper's authors minimise the squared error instead: the mean over all channels, absent ones taken as zero.
B windows, H horizons, C sensors.
"""

from typing import Literal

import torch
from torch import Tensor

from crossfeed.adaptation.parameters import Adaptable, Prepared
from crossfeed.distribution import Distribution
from crossfeed.errors import ForecastError
from crossfeed.windows.windows import WindowBatch

Loss = Literal["likelihood", "squared"]


@torch.no_grad()
def errors_in_advance(forecaster: Adaptable, batch: WindowBatch) -> Tensor:
    """What the forecaster gets wrong as it is now; zero where nothing was observed."""
    return observed_errors(forecaster.predict(batch), batch)


def observed_errors(forecast: Distribution, batch: WindowBatch) -> Tensor:
    """The errors of a forecast whose targets are in the batch; zero where nothing was observed."""
    return torch.where(batch.future_m_BHC, batch.future_x_BHC - forecast.mean, 0.0).detach()


def likelihood(name: str, forecast: Distribution, batch: WindowBatch, ahead_BHC: Tensor) -> Tensor:
    """The likelihood of present targets, and of the errors in advance about them; absent channels have no part."""
    present = batch.future_m_BHC
    x_BHC = torch.where(present, batch.future_x_BHC, 0.0)
    towards_truth = forecast.fixed_shape().nll(x_BHC)
    about_errors = forecast.with_mean(x_BHC - ahead_BHC).nll(x_BHC)
    if towards_truth is None or about_errors is None:
        raise ForecastError(
            f"Forecaster '{name}' claims no density, so it cannot be adapted by likelihood.",
            expected="a Gaussian or mixture forecast",
        )
    return torch.where(present, towards_truth + about_errors, 0.0).sum() / present.sum().clamp_min(1)


def squared(forecast: Distribution, batch: WindowBatch) -> Tensor:
    """The authors' loss: squared errors of the mean over every channel, an absent one being taken as zero."""
    x_BHC = torch.where(batch.future_m_BHC, batch.future_x_BHC, 0.0)
    return (forecast.mean - x_BHC).square().mean()


def update(
    prepared: Prepared, batch: WindowBatch, ahead_BHC: Tensor, optimiser: torch.optim.Optimizer, clip_norm: float,
    minimised: Loss = "likelihood",
) -> None:  # fmt: skip
    """One step on the targets of a batch; `ahead_BHC` are the errors in advance, which the squared error ignores."""
    name = prepared.forecaster.name
    with torch.enable_grad():
        forecast = prepared.forecaster.predict(batch)
        loss = squared(forecast, batch) if minimised == "squared" else likelihood(name, forecast, batch, ahead_BHC)
    if not bool(torch.isfinite(loss)):
        raise ForecastError(
            f"Adapting '{name}' led to a loss that is no number.", remedy="Use a smaller learning rate."
        )
    optimiser.zero_grad()
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(prepared.parameters, clip_norm)
    optimiser.step()
