"""The normal distribution."""

import math
from dataclasses import dataclass, replace

from torch import Tensor

from crossfeed.distribution.distribution import Distribution
from crossfeed.distribution.normal import expected_distance, floored, normal_at, normal_nll, probability


@dataclass(frozen=True)
class Gaussian(Distribution):
    """Independent normal entries; `scale` is the standard deviation."""

    mean: Tensor
    scale: Tensor

    @property
    def median(self) -> Tensor:
        return self.mean

    @property
    def standard_deviation(self) -> Tensor:
        return self.scale

    def nll(self, x: Tensor) -> Tensor:
        return normal_nll(x, self.mean, floored(self.scale))

    def beta_nll(self, x: Tensor, beta: float) -> Tensor:
        """NLL with each entry weighted by its detached variance to the power beta (Seitzer et al., 2022)."""
        return self.scale.detach() ** (2.0 * beta) * self.nll(x)

    def crps(self, x: Tensor) -> Tensor:
        scale = floored(self.scale)
        return expected_distance(x - self.mean, scale) - scale * (1.0 / math.sqrt(math.pi))

    def cdf(self, x: Tensor) -> Tensor:
        return probability((x - self.mean) / floored(self.scale))

    def quantile(self, level: float | Tensor) -> Tensor:
        return self.from_normal(normal_at(level, self.mean))

    def from_normal(self, normal: Tensor) -> Tensor:
        return self.mean + self.scale * normal

    def moved(self, location: Tensor, scale: Tensor) -> "Gaussian":
        return Gaussian(location + scale * self.mean, scale * self.scale)

    def with_mean(self, location: Tensor) -> "Gaussian":
        return replace(self, mean=location)
