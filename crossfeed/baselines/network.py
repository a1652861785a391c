"""The one output convention: a network maps a window batch to a Gaussian per horizon and channel, in z-space.

Networks whose original is trained with squared error give no log-variance; their spread is measured on their own
errors after training. B windows, H horizons, C sensors, D width, G plan features.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, softplus

from crossfeed.baselines.inputs import Features
from crossfeed.windows.windows import WindowBatch

# A standard deviation between 0.01 and 10 source standard deviations; the bounds are smooth, so no gradient dies.
_LOWEST, _HIGHEST = -9.2, 4.6
# Each entry's likelihood is weighted by its detached variance to this power (beta-NLL), as in the world model.
_BETA = 0.5


class Estimate(NamedTuple):
    """A forecast in z-space; no log-variance means a point forecast."""

    mean_BHC: Tensor
    log_variance_BHC: Tensor | None


def bounded(raw: Tensor) -> Tensor:
    """A log-variance inside the allowed range."""
    return _LOWEST + softplus(_HIGHEST - softplus(_HIGHEST - raw) - _LOWEST)


def masked_mean(values: Tensor, present: Tensor) -> Tensor:
    """The mean over present entries; 0 where nothing is present."""
    weight = present.to(values.dtype)
    return (values * weight).sum() / weight.sum().clamp(min=1.0)


def gaussian_loss(estimate: Estimate, x: Tensor, present: Tensor) -> Tensor:
    """Beta-NLL over present entries, or mean squared error where there is no log-variance."""
    square = (x - estimate.mean_BHC).square()
    if estimate.log_variance_BHC is None:
        return masked_mean(square, present)
    variance = estimate.log_variance_BHC.exp()
    nll = 0.5 * (estimate.log_variance_BHC + square / variance)
    return masked_mean(nll * variance.detach() ** _BETA, present)


def forecast_loss(estimate: Estimate, batch: WindowBatch) -> Tensor:
    """The loss of a forecast at the batch's horizons."""
    return gaussian_loss(estimate, batch.future_x_BHC, batch.future_m_BHC)


class Network(nn.Module):
    """What the fitting loop trains; most networks only define `forward`."""

    has_pretext = False

    def forward(self, batch: WindowBatch) -> Estimate:
        """Forecast every horizon and channel."""
        raise NotImplementedError

    def objective(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:  # noqa: ARG002
        """The training loss of one batch; `generator` is for networks that draw random numbers."""
        return forecast_loss(self(batch), batch)

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        """The loss of a stage before forecasting, where `has_pretext`."""
        raise NotImplementedError


class HorizonDecoder(nn.Module):
    """From one context vector and the command plan to a Gaussian per horizon and channel."""

    def __init__(self, features: Features, width: int) -> None:
        super().__init__()
        shape = features.shape
        self.features = features
        self.state = nn.Linear(width, width)
        self.plan = nn.Linear(features.plan_width, width, bias=False) if features.plan_width else None
        self.horizon_HD = nn.Parameter(0.02 * torch.randn(shape.slots, width))
        self.mean = nn.Linear(width, shape.sensors)
        self.log_variance = nn.Linear(width, shape.sensors)

    def forward(self, z_BD: Tensor, batch: WindowBatch) -> Estimate:
        hidden_BHD = self.state(z_BD)[:, None] + self.horizon_HD
        if self.plan is not None:
            hidden_BHD = hidden_BHD + self.plan(self.features.plan(batch))
        hidden_BHD = gelu(hidden_BHD)
        return Estimate(self.mean(hidden_BHD), bounded(self.log_variance(hidden_BHD)))
