"""Physical head (Section 4.3): a predicted latent becomes a mean and a variance for every sensor.

B windows, H horizons, C sensors, D latent width. Everything here runs in float32, in the global z-space.
"""

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from crossfeed.configuration import CheckedForm
from crossfeed.distribution import Gaussian
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import present_mean


class HeadConfig(CheckedForm):
    """Which likelihood is fitted and how the variance is kept in bounds.

    variance 'hard_clamp': log-variance cut at +-limit (paper; no gradient beyond). 'smooth': bent towards +-limit and
    added to a noise floor learned per channel, at least `noise_floor` standard deviations of the source data.
    """

    likelihood: Literal["nll", "beta_nll"] = "beta_nll"
    beta: float = Field(default=0.5, ge=0.0, le=1.0)
    variance: Literal["smooth", "hard_clamp"] = "smooth"
    limit: float = Field(default=10.0, gt=0.0)
    noise_floor: float = Field(default=0.01, gt=0.0)


class _FromZero(nn.Linear):
    """Begins at zero and draws no random number, so that a model starts like one without an anchor."""

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


class Anchor(nn.Module):
    """Moves a forecast along the line from the window's level to zero: by -1 times their distance (gone) up to +1.

    A network that reads centred rows cannot know how far away the physical zero is, so it cannot say that a current
    will vanish. It can say by which factor the level will change, and planned commands tell most of that: half the
    speed, no spindle. The factor means the same on machines whose levels differ.

    Only for sensors whose zero lies within `reach` standard deviations of the source's mean. For a temperature or a
    voltage that is never off, zero is no state of the machine.
    """

    zero_C: Tensor
    reached_C: Tensor

    def __init__(self, width: int, normaliser: Normaliser, reach: float) -> None:
        super().__init__()
        self.change = _FromZero(width, len(normaliser.sensor_names))
        zero_C, reached_C = normaliser.zero_within(reach)
        self.register_buffer("reached_C", torch.from_numpy(reached_C), persistent=False)
        self.register_buffer("zero_C", torch.from_numpy(zero_C), persistent=False)

    def forward(self, latent_BHD: Tensor, level_BC: Tensor) -> Tensor:
        """What to add to the mean, in global z-space."""
        with torch.autocast(latent_BHD.device.type, enabled=False):
            share_BHC = torch.tanh(self.change(latent_BHD.float()))
        distance_BC = torch.where(self.reached_C, level_BC - self.zero_C, 0.0)
        return share_BHC * distance_BC.unsqueeze(1)


class Head(nn.Module):
    """Linear maps from a latent to mean and raw log-variance, the anchor, the variance bound and the likelihood."""

    def __init__(self, config: HeadConfig, width: int, sensors: int, anchor: Anchor | None = None) -> None:
        super().__init__()
        self.config, self.anchor = config, anchor
        self.mean = nn.Linear(width, sensors)
        self.log_variance = nn.Linear(width, sensors)
        self.noise = nn.Parameter(torch.zeros(sensors)) if config.variance == "smooth" else None

    def forward(self, latent_BHD: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and raw log-variance in the space the latent lives in."""
        with torch.autocast(latent_BHD.device.type, enabled=False):
            latent_BHD = latent_BHD.float()
            return self.mean(latent_BHD), self.log_variance(latent_BHD)

    def bound(self, log_variance_BHC: Tensor) -> Tensor:
        """Keep a log-variance in global space within reason."""
        limit = self.config.limit
        if self.noise is None:
            return log_variance_BHC.clamp(-limit, limit)
        # An algebraic bend: unlike a clamp or a tanh, its slope never vanishes.
        bent_BHC = log_variance_BHC * torch.rsqrt(1.0 + (log_variance_BHC / limit).square())
        return torch.logaddexp(bent_BHC, self.log_noise)

    @property
    def log_noise(self) -> Tensor:
        """Log-variance of the learned noise floor, never below the configured one."""
        assert self.noise is not None
        return 2.0 * math.log(self.config.noise_floor) + functional.softplus(self.noise)

    def distribution(self, mean_BHC: Tensor, log_variance_BHC: Tensor) -> Gaussian:
        """The forecast with this mean and (bounded) log-variance."""
        return Gaussian(mean_BHC, torch.exp(0.5 * log_variance_BHC))

    def loss(self, forecast: Gaussian, x_BHC: Tensor, m_BHC: Tensor) -> Tensor:
        """The configured likelihood averaged over present target entries; absent ones are never read."""
        x_BHC = torch.where(m_BHC, x_BHC, forecast.mean.detach())
        if self.config.likelihood == "beta_nll":
            return present_mean(forecast.beta_nll(x_BHC, self.config.beta), m_BHC)
        return present_mean(forecast.nll(x_BHC), m_BHC)
