"""The conventions of the neural baselines: what goes in, what comes out, and instance normalisation between the two.

In go values, presence flags, past commands and the plan; out comes a distribution per horizon and channel, in z-space.
Networks whose original is trained with squared error give a point; its spread is measured on their own errors after
training. B windows, K context rows, C sensors, A commands, V sensors and commands, H horizons, T longest horizon,
F context features, G plan features, D width.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, softplus

from crossfeed.model.distribution import Distribution, Gaussian, Point
from crossfeed.model.parts.instance_norm import InstanceNorm, InstanceNormConfig
from crossfeed.windows.windows import WindowBatch, WindowSet, present_mean


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a window is."""

    context: int
    sensors: int
    commands: int
    horizons: tuple[int, ...]

    @classmethod
    def of(cls, windows: WindowSet) -> Self:
        """The shape of these windows."""
        return cls(windows.context, windows.x_NC.shape[1], windows.a_NA.shape[1], windows.horizons)

    @property
    def steps(self) -> int:
        """The longest horizon: so many steps of planned commands are known."""
        return max(self.horizons)

    @property
    def slots(self) -> int:
        return len(self.horizons)


@dataclass(frozen=True, slots=True)
class NetworkInputs:
    """What a baseline is allowed to see beside sensor values and past commands; each can be switched off."""

    presence: bool = True
    plan: bool = True


class Features(nn.Module):
    """Turns a batch into the tensors a network reads; what is switched off is never touched."""

    horizon_H: Tensor  # the steps of the plan that are horizons
    until_h_HT: Tensor

    def __init__(self, shape: Shape, inputs: NetworkInputs) -> None:
        super().__init__()
        self.shape, self.inputs = shape, inputs
        self.context_width = shape.sensors * (1 + inputs.presence) + shape.commands
        self.plan_width = shape.commands * (1 + shape.steps) if inputs.plan else 0
        horizon_H = torch.tensor(shape.horizons) - 1
        until_h_HT = torch.arange(shape.steps) <= horizon_H[:, None]
        self.register_buffer("horizon_H", horizon_H, persistent=False)
        self.register_buffer("until_h_HT", until_h_HT.float(), persistent=False)

    def context(self, batch: WindowBatch) -> Tensor:
        """Values with zeros where absent, presence flags and past commands, as one (B, K, F) tensor."""
        m_BKC = batch.m_BKC.to(batch.x_BKC.dtype)
        presence = [m_BKC] if self.inputs.presence else []
        return torch.cat([batch.x_BKC * m_BKC, *presence, batch.a_BKA], dim=-1)

    def plan(self, batch: WindowBatch) -> Tensor:
        """The planned commands as horizon h may know them (nothing after t+h), as one (B, H, G) tensor."""
        if not self.inputs.plan:
            return batch.x_BKC.new_zeros(len(batch.x_BKC), self.shape.slots, 0)
        steps_BHTA = batch.future_a_BTA[:, None] * self.until_h_HT[None, :, :, None]
        return torch.cat([steps_BHTA.flatten(2), batch.mean_a_BHA], dim=-1)


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
    """A network whose encoder sums the context up in one vector, from which the decoder forecasts."""

    encoder: nn.Module

    def __init__(self, features: Features, width: int, encoder: nn.Module | None = None) -> None:
        super().__init__()
        self.features = features
        if encoder is not None:
            self.encoder = encoder
        self.decoder = HorizonDecoder(features, width)

    def encode(self, batch: WindowBatch) -> Tensor:
        """The context vector (B, D) that forecasts."""
        z_BD: Tensor = self.encoder(self.features.context(batch))
        return z_BD

    def forward(self, batch: WindowBatch) -> Distribution:
        forecast: Distribution = self.decoder(self.encode(batch), batch)
        return forecast


_WHOLE_WINDOW = InstanceNorm(InstanceNormConfig(kind="pure"))


def window_statistics(x_BKC: Tensor, m_BKC: Tensor) -> tuple[Tensor, Tensor]:
    """Centre and scale of each window and channel over present entries, detached; identity for unseen channels."""
    found = _WHOLE_WINDOW.statistics(x_BKC, m_BKC)
    assert found is not None
    return found.centre_BC.unsqueeze(1), found.scale_BC.unsqueeze(1)


def joint_series(batch: WindowBatch) -> tuple[Tensor, Tensor]:
    """Sensors and commands as channels of one kind, with their presence."""
    x_BKV = torch.cat([batch.x_BKC * batch.m_BKC.to(batch.x_BKC.dtype), batch.a_BKA], dim=-1)
    return x_BKV, torch.cat([batch.m_BKC, torch.ones_like(batch.a_BKA, dtype=torch.bool)], dim=-1)


def instance_series(batch: WindowBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Sensors and commands (B, V, K) in instance space, and the statistics that lead back."""
    x_BKV, present_BKV = joint_series(batch)
    centre_B1V, scale_B1V = window_statistics(x_BKV, present_BKV)
    return ((x_BKV - centre_B1V) / scale_B1V * present_BKV).transpose(1, 2), centre_B1V, scale_B1V


def normalised(batch: WindowBatch) -> tuple[WindowBatch, Tensor, Tensor]:
    """The batch with its context in instance space, and the statistics that lead back."""
    centre_B1C, scale_B1C = window_statistics(batch.x_BKC, batch.m_BKC)
    x_BKC = (batch.x_BKC - centre_B1C) / scale_B1C * batch.m_BKC.to(batch.x_BKC.dtype)
    return replace(batch, x_BKC=x_BKC), centre_B1C, scale_B1C


class InstanceNormalised(Network):
    """Any network between RevIN and its inverse.

    Only the mean is mapped back; the log-variance is predicted in z-space directly, because scaling it with a window
    that stands still would claim certainty about the start-up that follows.
    """

    def __init__(self, inner: Network) -> None:
        super().__init__()
        self.inner = inner
        self.has_pretext = inner.has_pretext

    def forward(self, batch: WindowBatch) -> Distribution:
        inside, centre_B1C, scale_B1C = normalised(batch)
        forecast: Distribution = self.inner(inside)
        return forecast.with_mean(forecast.mean * scale_B1C + centre_B1C)

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        """What is hidden is rebuilt in instance space."""
        return self.inner.pretext(normalised(batch)[0], generator)
