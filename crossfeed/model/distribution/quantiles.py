"""A forecast given by its quantiles. Q levels along the last axis."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from crossfeed.model.distribution.distribution import Distribution, checked, probability


@dataclass(frozen=True)
class Quantiles(Distribution):
    """Linear between the quantiles and flat outside; it claims no density. The mean stands by itself."""

    levels: tuple[float, ...]
    values_Q: Tensor
    mean: Tensor
    stacked: ClassVar[tuple[str, ...]] = ("values_Q",)

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
        levels = self._levels
        right = (self.values_Q < x[..., None]).sum(-1).clamp(1, len(self.levels) - 1)
        low, high = self._values(right - 1), self._values(right)
        share = ((x - low) / (high - low).clamp_min(torch.finfo(x.dtype).tiny)).clamp(0.0, 1.0)
        inside = levels[right - 1] + share * (levels[right] - levels[right - 1])
        below, beyond = x < self.values_Q[..., 0], x > self.values_Q[..., -1]
        return torch.where(below, levels[0] / 2.0, torch.where(beyond, (1.0 + levels[-1]) / 2.0, inside))

    def quantile(self, level: float | Tensor) -> Tensor:
        levels, like = self._levels, self.values_Q
        if not isinstance(level, Tensor):
            level = torch.full((), checked(level), dtype=like.dtype, device=like.device)
        level = level.to(like).expand(self.shape).contiguous()
        right = torch.bucketize(level, levels).clamp(1, len(self.levels) - 1)
        share = ((level - levels[right - 1]) / (levels[right] - levels[right - 1])).clamp(0.0, 1.0)
        low, high = self._values(right - 1), self._values(right)
        # At a share of exactly 0 or 1 the other end may be infinite (a conformal interval without enough data).
        between = torch.where(share == 1.0, high, low * (1.0 - share) + high * share)
        return torch.where(share == 0.0, low, between)

    def from_normal(self, normal: Tensor) -> Tensor:
        return self.quantile(probability(normal))

    def moved(self, location: Tensor, scale: Tensor) -> "Quantiles":
        values_Q = location[..., None] + scale[..., None] * self.values_Q
        return replace(self, values_Q=values_Q, mean=location + scale * self.mean)

    def with_mean(self, location: Tensor) -> "Quantiles":
        return self.moved(location - self.mean, torch.ones_like(self.mean))

    def _values(self, index: Tensor) -> Tensor:
        return self.values_Q.gather(-1, index[..., None])[..., 0]

    @cached_property
    def _levels(self) -> Tensor:
        return torch.tensor(self.levels, dtype=self.values_Q.dtype, device=self.values_Q.device)

    @cached_property
    def _padded(self) -> tuple[Tensor, Tensor]:
        levels = torch.nn.functional.pad(torch.nn.functional.pad(self._levels, (1, 0)), (0, 1), value=1.0)
        return levels, torch.cat([self.values_Q[..., :1], self.values_Q, self.values_Q[..., -1:]], -1)
