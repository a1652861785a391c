"""A forecast that says nothing about its own error."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crossfeed.distribution.distribution import Distribution


@dataclass(frozen=True)
class Point(Distribution):
    """One value: no density, no intervals, and the absolute error as CRPS."""

    mean: Tensor
    has_intervals: ClassVar[bool] = False

    @property
    def standard_deviation(self) -> Tensor:
        return torch.zeros_like(self.mean)

    def nll(self, x: Tensor) -> None:  # noqa: ARG002
        return None

    def crps(self, x: Tensor) -> Tensor:
        return (x - self.mean).abs()

    def cdf(self, x: Tensor) -> Tensor:
        return torch.heaviside(x - self.mean, torch.full_like(x, 0.5))

    def quantile(self, level: float | Tensor) -> Tensor:  # noqa: ARG002
        return self.mean

    def from_normal(self, normal: Tensor) -> Tensor:
        return self.mean + torch.zeros_like(normal)

    def moved(self, location: Tensor, scale: Tensor) -> "Point":
        return Point(location + scale * self.mean)

    def with_mean(self, location: Tensor) -> "Point":
        return Point(location)
