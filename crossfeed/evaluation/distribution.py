"""What a forecaster says about the future: one marginal distribution per window, horizon and channel.

Shapes: B windows, H horizons, C channels, Q quantile levels. All methods work entry by entry, so any leading shape
is fine. `nll` is differentiable and carries its constant, log(2 pi) / 2 = 0.919 for the Gaussian.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

LOG_TWO_PI = math.log(2.0 * math.pi)


class Distribution(ABC):
    """The interface that metrics, conformal layer and adaptation know."""

    mean: Tensor
    has_intervals: bool = True

    @property
    @abstractmethod
    def standard_deviation(self) -> Tensor:
        """The spread of each marginal."""

    @abstractmethod
    def nll(self, x: Tensor) -> Tensor | None:
        """Negative log density at `x`, or None where no density is claimed."""

    @abstractmethod
    def crps(self, x: Tensor) -> Tensor:
        """Continuous ranked probability score at `x`."""

    @abstractmethod
    def cdf(self, x: Tensor) -> Tensor:
        """Probability of a value up to `x`: the PIT when `x` is the observation."""

    @abstractmethod
    def quantile(self, level: float) -> Tensor:
        """The value that is exceeded with probability 1 - level."""

    @abstractmethod
    def rescaled(self, location: Tensor, scale: Tensor) -> "Distribution":
        """The distribution of `location + scale * value` in double precision on the CPU, detached from any graph."""


@dataclass(frozen=True)
class Point(Distribution):
    """A forecast that says nothing about its own error: no density, no intervals, and the absolute error as CRPS."""

    mean: Tensor
    has_intervals = False

    @property
    def standard_deviation(self) -> Tensor:
        return torch.zeros_like(self.mean)

    def nll(self, x: Tensor) -> None:  # noqa: ARG002
        return None

    def crps(self, x: Tensor) -> Tensor:
        return (x - self.mean).abs()

    def cdf(self, x: Tensor) -> Tensor:
        return torch.heaviside(x - self.mean, torch.full_like(x, 0.5))

    def quantile(self, level: float) -> Tensor:  # noqa: ARG002
        return self.mean

    def rescaled(self, location: Tensor, scale: Tensor) -> "Point":
        return Point(location + scale * _plain(self.mean))


@dataclass(frozen=True)
class Gaussian(Distribution):
    """Independent normal marginals; `scale` is the standard deviation."""

    mean: Tensor
    scale: Tensor

    @property
    def standard_deviation(self) -> Tensor:
        return self.scale

    def nll(self, x: Tensor) -> Tensor:
        z = (x - self.mean) / self.scale
        return 0.5 * z.square() + self.scale.log() + 0.5 * LOG_TWO_PI

    def crps(self, x: Tensor) -> Tensor:
        z = (x - self.mean) / self.scale
        density = torch.exp(-0.5 * z.square()) / math.sqrt(2.0 * math.pi)
        inside: Tensor = z * (2.0 * torch.special.ndtr(z) - 1.0) + 2.0 * density - 1.0 / math.sqrt(math.pi)
        return self.scale * inside

    def cdf(self, x: Tensor) -> Tensor:
        probability: Tensor = torch.special.ndtr((x - self.mean) / self.scale)
        return probability

    def quantile(self, level: float) -> Tensor:
        return self.mean + self.scale * float(torch.special.ndtri(torch.tensor(level, dtype=torch.float64)))

    def rescaled(self, location: Tensor, scale: Tensor) -> "Gaussian":
        return Gaussian(location + scale * _plain(self.mean), scale * _plain(self.scale))


@dataclass(frozen=True)
class StudentT(Distribution):
    """Independent Student-t marginals for heavy tails; `scale` is not the standard deviation."""

    mean: Tensor
    scale: Tensor
    degrees_of_freedom: Tensor

    @property
    def standard_deviation(self) -> Tensor:
        nu = self.degrees_of_freedom
        factor = torch.where(nu > 2.0, nu / (nu - 2.0).clamp_min(1e-12), torch.inf)
        return self.scale * factor.sqrt()

    def nll(self, x: Tensor) -> Tensor:
        z, nu = (x - self.mean) / self.scale, self.degrees_of_freedom
        normaliser = torch.lgamma(0.5 * nu) - torch.lgamma(0.5 * (nu + 1.0)) + 0.5 * torch.log(nu * math.pi)
        return normaliser + self.scale.log() + 0.5 * (nu + 1.0) * torch.log1p(z.square() / nu)

    def crps(self, x: Tensor) -> Tensor:
        """Closed form, for more than one degree of freedom (below that the mean does not exist)."""
        z, nu = (x - self.mean) / self.scale, self.degrees_of_freedom
        density = torch.exp(-StudentT(torch.zeros_like(z), torch.ones_like(z), nu).nll(z))
        log_beta_ratio = _log_beta(nu.new_tensor(0.5), nu - 0.5) - 2.0 * _log_beta(nu.new_tensor(0.5), 0.5 * nu)
        spread = 2.0 * nu.sqrt() / (nu - 1.0) * torch.exp(log_beta_ratio)
        inside = z * (2.0 * self.cdf(x) - 1.0) + 2.0 * density * (nu + z.square()) / (nu - 1.0) - spread
        return self.scale * inside

    def cdf(self, x: Tensor) -> Tensor:
        from scipy.special import stdtr

        z = ((x - self.mean) / self.scale).detach().cpu().numpy()
        values = stdtr(self.degrees_of_freedom.detach().cpu().numpy(), z)
        return torch.as_tensor(values, dtype=self.mean.dtype, device=self.mean.device)

    def quantile(self, level: float) -> Tensor:
        from scipy.special import stdtrit

        values = np.asarray(stdtrit(self.degrees_of_freedom.detach().cpu().numpy(), level))
        return self.mean + self.scale * torch.as_tensor(values, dtype=self.mean.dtype, device=self.mean.device)

    def rescaled(self, location: Tensor, scale: Tensor) -> "StudentT":
        mean, spread = location + scale * _plain(self.mean), scale * _plain(self.scale)
        return StudentT(mean, spread, _plain(self.degrees_of_freedom))


@dataclass(frozen=True)
class Quantiles(Distribution):
    """A forecast given by its quantiles, linear in between and flat outside; it claims no density."""

    levels: tuple[float, ...]
    values_Q: Tensor
    mean: Tensor

    @property
    def standard_deviation(self) -> Tensor:
        """The root mean square distance of the interpolated quantile function from the mean."""
        levels, values = self._padded
        away = values - self.mean[..., None]
        low, high = away[..., :-1], away[..., 1:]
        return ((low.square() + low * high + high.square()) / 3.0 * levels.diff()).sum(-1).sqrt()

    def nll(self, x: Tensor) -> None:  # noqa: ARG002
        return None

    def crps(self, x: Tensor) -> Tensor:
        """Exact for the interpolated quantile function: twice the integral of the pinball loss over all levels."""
        levels, values = self._padded
        start, width = levels[:-1], levels.diff()
        low, high = values[..., :-1], values[..., 1:]
        # Distance to the observation runs linearly from `first` to `last` along each piece of the quantile function.
        first, last = x[..., None] - low, x[..., None] - high
        all_weighted = width * (start * (first + last) / 2.0 + width * (first + 2.0 * last) / 6.0)
        share_below = (first / (high - low).clamp_min(torch.finfo(x.dtype).tiny)).clamp(0.0, 1.0)
        above = width * (1.0 - share_below) * (first.clamp_max(0.0) + last) / 2.0
        above = torch.where(last < 0.0, above, 0.0)
        return 2.0 * (all_weighted - above).sum(-1)

    def cdf(self, x: Tensor) -> Tensor:
        """Interpolated; beyond the outermost quantiles half of what is left, since the flat tails hold no detail."""
        levels = torch.tensor(self.levels, dtype=self.values_Q.dtype, device=self.values_Q.device)
        right = (self.values_Q < x[..., None]).sum(-1).clamp(1, len(self.levels) - 1)
        low, high = (self.values_Q.gather(-1, index[..., None])[..., 0] for index in (right - 1, right))
        share = ((x - low) / (high - low).clamp_min(torch.finfo(x.dtype).tiny)).clamp(0.0, 1.0)
        inside = levels[right - 1] + share * (levels[right] - levels[right - 1])
        below, beyond = x < self.values_Q[..., 0], x > self.values_Q[..., -1]
        return torch.where(below, levels[0] / 2.0, torch.where(beyond, (1.0 + levels[-1]) / 2.0, inside))

    def quantile(self, level: float) -> Tensor:
        right = int(np.clip(np.searchsorted(self.levels, level), 1, len(self.levels) - 1))
        low, high = self.levels[right - 1], self.levels[right]
        share = min(max((level - low) / (high - low), 0.0), 1.0)
        # At a share of exactly 0 or 1 the other end may be infinite (a conformal interval without enough data).
        if share in (0.0, 1.0):
            return self.values_Q[..., right - 1 if share == 0.0 else right]
        return self.values_Q[..., right - 1] * (1.0 - share) + self.values_Q[..., right] * share

    def rescaled(self, location: Tensor, scale: Tensor) -> "Quantiles":
        values = location[..., None] + scale[..., None] * _plain(self.values_Q)
        return Quantiles(self.levels, values, location + scale * _plain(self.mean))

    @cached_property
    def _padded(self) -> tuple[Tensor, Tensor]:
        levels = torch.tensor([0.0, *self.levels, 1.0], dtype=self.values_Q.dtype, device=self.values_Q.device)
        return levels, torch.cat([self.values_Q[..., :1], self.values_Q, self.values_Q[..., -1:]], -1)


def _plain(values: Tensor) -> Tensor:
    return values.detach().to("cpu", torch.float64)


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
