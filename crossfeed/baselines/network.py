"""The one output convention: a network maps a window batch to a distribution per horizon and channel, in z-space.

Networks whose original is trained with squared error give a point; its spread is measured on their own errors after
training. B windows, H horizons, C sensors, D width, G plan features.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, softplus

from crossfeed.baselines.inputs import Features
from crossfeed.distribution import Distribution, Gaussian, Point
from crossfeed.windows.windows import WindowBatch, present_mean

# Of every network whose original does not say otherwise.
DROPOUT = 0.1
# A standard deviation between 0.01 and 10 source standard deviations; the bounds are smooth, so no gradient dies.
_LOWEST, _HIGHEST = -9.2, 4.6
# Each entry's likelihood is weighted by its detached variance to this power (beta-NLL), as in the world model.
_BETA = 0.5


def estimate(mean_BHC: Tensor, raw_BHC: Tensor | None) -> Distribution:
    """A Gaussian with this mean and (still unbounded) log-variance, or without one a mere point."""
    if raw_BHC is None:
        return Point(mean_BHC)
    # A log-variance inside the allowed range.
    log_variance_BHC = _LOWEST + softplus(_HIGHEST - softplus(_HIGHEST - raw_BHC) - _LOWEST)
    return Gaussian(mean_BHC, torch.exp(0.5 * log_variance_BHC))


def present_loss(forecast: Distribution, x: Tensor, present: Tensor) -> Tensor:
    """Beta-NLL of a Gaussian over present entries, or the mean squared error of a point."""
    entries = forecast.beta_nll(x, _BETA) if isinstance(forecast, Gaussian) else (x - forecast.mean).square()
    return present_mean(entries, present)


def forecast_loss(forecast: Distribution, batch: WindowBatch) -> Tensor:
    """The loss of a forecast at the batch's horizons."""
    return present_loss(forecast, batch.future_x_BHC, batch.future_m_BHC)


class Network(nn.Module):
    """What the fitting loop trains; most networks only define `forward`."""

    has_pretext = False

    def forward(self, batch: WindowBatch) -> Distribution:
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

    def forward(self, z_BD: Tensor, batch: WindowBatch) -> Distribution:
        hidden_BHD = self.state(z_BD)[:, None] + self.horizon_HD
        if self.plan is not None:
            hidden_BHD = hidden_BHD + self.plan(self.features.plan(batch))
        hidden_BHD = gelu(hidden_BHD)
        return estimate(self.mean(hidden_BHD), self.log_variance(hidden_BHD))


class EncodingNetwork(Network):
    """A network that sums its context up in one vector, from which the decoder forecasts."""

    decoder: HorizonDecoder

    def encode(self, batch: WindowBatch) -> Tensor:
        """The context vector (B, D) that forecasts."""
        raise NotImplementedError

    def forward(self, batch: WindowBatch) -> Distribution:
        forecast: Distribution = self.decoder(self.encode(batch), batch)
        return forecast
