"""The Student-t distribution, for heavy tails. Its tail probabilities are sums that stay on the device."""

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from crossfeed.distribution.distribution import Distribution
from crossfeed.distribution.inversion import find_root
from crossfeed.distribution.normal import checked, floored, probability

_POINTS = 64
# Above this many degrees of freedom all mass lies in an interval of this many inverse roots of them.
_NEARLY_NORMAL, _REACH = 30.0, 12.0


@dataclass(frozen=True)
class StudentT(Distribution):
    """Independent Student-t entries with more than one degree of freedom; `scale` is not the standard deviation."""

    mean: Tensor
    scale: Tensor
    degrees_of_freedom: Tensor

    @classmethod
    def with_deviation(cls, mean: Tensor, standard_deviation: Tensor, degrees_of_freedom: Tensor) -> "StudentT":
        """The member with this standard deviation, for more than two degrees of freedom."""
        shrunk = ((degrees_of_freedom - 2.0) / degrees_of_freedom).sqrt()
        return cls(mean, standard_deviation * shrunk, degrees_of_freedom)

    @property
    def median(self) -> Tensor:
        return self.mean

    @property
    def standard_deviation(self) -> Tensor:
        nu = self.degrees_of_freedom
        factor = torch.where(nu > 2.0, nu / (nu - 2.0).clamp_min(1e-12), torch.inf)
        return self.scale * factor.sqrt()

    def nll(self, x: Tensor) -> Tensor:
        scale, nu = floored(self.scale), self.degrees_of_freedom
        return _standard_nll((x - self.mean) / scale, nu) + scale.log()

    def crps(self, x: Tensor) -> Tensor:
        scale, nu = floored(self.scale), self.degrees_of_freedom
        distance = x - self.mean
        z = distance / scale
        density = torch.exp(-_standard_nll(z, nu))
        log_beta_ratio = _log_beta(nu - 0.5) - 2.0 * _log_beta(0.5 * nu)
        spread = 2.0 * nu.sqrt() / (nu - 1.0) * torch.exp(log_beta_ratio)
        inside = 2.0 * density * (nu + z.square()) / (nu - 1.0) - spread
        return distance * (2.0 * self.cdf(x) - 1.0) + scale * inside

    def cdf(self, x: Tensor) -> Tensor:
        z = ((x - self.mean) / floored(self.scale)).double()
        nu = self.degrees_of_freedom.double()
        beyond = _tail(torch.atan2(nu.sqrt(), z.abs()), nu)
        return torch.where(z > 0.0, 1.0 - beyond, beyond).to(self.mean)

    def quantile(self, level: float | Tensor) -> Tensor:
        if not isinstance(level, Tensor):
            level = torch.full((), checked(level), dtype=torch.float64, device=self.mean.device)
        share = torch.minimum(level.double(), 1.0 - level.double())
        return self._at(share, level - 0.5)

    def from_normal(self, normal: Tensor) -> Tensor:
        return self._at(probability(-normal.double().abs()), normal)

    def moved(self, location: Tensor, scale: Tensor) -> "StudentT":
        return StudentT(location + scale * self.mean, scale * self.scale, self.degrees_of_freedom)

    def with_mean(self, location: Tensor) -> "StudentT":
        return replace(self, mean=location)

    def _at(self, share: Tensor, side: Tensor) -> Tensor:
        """The value with a `share` of the probability beyond it, above or below the middle as the sign of `side`."""
        nu = self.degrees_of_freedom.double().detach() + torch.zeros_like(share)
        share = share + torch.zeros_like(nu)
        near = 4.0 * torch.finfo(nu.dtype).eps * share
        high = torch.full_like(nu, 0.5 * math.pi)
        singles = (part.flatten() for part in (torch.zeros_like(nu), high, near, share, nu))
        angle = find_root(_missing, *singles).view_as(nu)
        # At the middle itself the quotient is a rounding error, and the sign of the side is zero.
        standard: Tensor = torch.sign(side) * nu.sqrt() / torch.tan(angle)
        return self.mean + self.scale * standard.to(self.mean)


def _missing(angle: Tensor, share: Tensor, nu: Tensor) -> tuple[Tensor, Tensor]:
    """How much of the share lies too much beyond the angle, and how it grows with the angle."""
    return _tail(angle, nu) - share, torch.exp(_log_constant(nu) + (nu - 1.0) * angle.sin().log())


def _standard_nll(z: Tensor, nu: Tensor) -> Tensor:
    normaliser = torch.lgamma(0.5 * nu) - torch.lgamma(0.5 * (nu + 1.0)) + 0.5 * torch.log(nu * math.pi)
    return normaliser + 0.5 * (nu + 1.0) * torch.log1p(z.square() / nu)


def _tail(angle: Tensor, nu: Tensor) -> Tensor:
    """Probability beyond sqrt(nu) / tan(angle): a multiple of the integral of sin^(nu - 1) from 0 to the angle.

    Few degrees of freedom leave a branch point at 0, which the fourth power of the variable smooths away; many leave
    a narrow bell before pi / 2, outside of which nothing is summed.
    """
    node, weight = _legendre(angle.device)
    angle, nu = angle.unsqueeze(-1), nu.unsqueeze(-1)
    heavy = nu < _NEARLY_NORMAL
    start = torch.where(heavy, 0.0, (0.5 * math.pi - _REACH / nu.sqrt()).clamp_min(0.0))
    width = (angle - start).clamp_min(0.0)
    place = start + width * torch.where(heavy, node**4, node)
    stretch = width * torch.where(heavy, 4.0 * node**3, 1.0)
    height = torch.exp(_log_constant(nu) + (nu - 1.0) * place.sin().clamp_min(1e-300).log())
    return (weight * stretch * height).sum(-1)


def _log_constant(nu: Tensor) -> Tensor:
    return torch.lgamma(0.5 * (nu + 1.0)) - torch.lgamma(0.5 * nu) - 0.5 * math.log(math.pi)


def _log_beta(other: Tensor) -> Tensor:
    """log B(1/2, other)."""
    return 0.5 * math.log(math.pi) + torch.lgamma(other) - torch.lgamma(other + 0.5)


@cache
def _legendre(device: torch.device) -> tuple[Tensor, Tensor]:
    """Nodes and weights of a sum over 0..1; copied to a device only once."""
    node, weight = np.polynomial.legendre.leggauss(_POINTS)
    return torch.from_numpy(0.5 * (node + 1.0)).to(device), torch.from_numpy(0.5 * weight).to(device)
