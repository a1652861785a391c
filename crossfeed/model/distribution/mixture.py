"""A mixture of normals, for signals that stand still and then jump. M components along the last axis.

Forecasts of others may be given by their quantiles: Q levels along the last axis.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from crossfeed.model.distribution.distribution import (
    Distribution,
    checked,
    density,
    expected_distance,
    floored,
    normal_at,
    normal_nll,
    probability,
)

ROUNDS = 64
ASKED_EVERY = 8


@torch.no_grad()
def find_root(
    function: Callable[..., tuple[Tensor, Tensor]], low_N: Tensor, high_N: Tensor, near_N: Tensor, *parameters: Tensor
) -> Tensor:
    """The zeros (N) between `low` and `high` of a rising function of x and its parameters that gives value and slope.

    A Newton step is taken where it stays inside the bracket and at least halves the last step; elsewhere the bracket
    is halved. An entry rests once its value is as near to zero as asked. On a CPU, where asking costs nothing, resting
    entries are put aside. A GPU is asked now and then whether all rest, and never where its work is being captured.
    """
    x_N, last_N = 0.5 * (low_N + high_N), high_N - low_N
    found_N, left_N = x_N.clone(), torch.arange(len(x_N), device=x_N.device)
    for number in range(ROUNDS):
        value_N, slope_N = function(x_N, *parameters)
        below_N = value_N < 0.0
        low_N, high_N = torch.where(below_N, x_N, low_N), torch.where(below_N, high_N, x_N)
        newton_N = x_N - value_N / slope_N
        good_N = (newton_N > low_N) & (newton_N < high_N) & ((newton_N - x_N).abs() < 0.5 * last_N)
        next_N = torch.where(good_N, newton_N, 0.5 * (low_N + high_N))
        next_N = torch.where(value_N.abs() <= near_N, x_N, next_N)
        last_N, moving_N, x_N = (next_N - x_N).abs(), next_N != x_N, next_N
        if x_N.device.type == "cpu" and 2 * int(moving_N.sum()) <= len(x_N):
            found_N[left_N] = x_N
            left_N = left_N[moving_N]
            if not len(left_N):
                return found_N
            state = (x_N, low_N, high_N, last_N, near_N, *parameters)
            x_N, low_N, high_N, last_N, near_N, *parameters = (part[moving_N] for part in state)  # type: ignore[assignment]
        elif number % ASKED_EVERY == ASKED_EVERY - 1 and _may_ask(x_N) and not bool(moving_N.any()):
            break
    found_N[left_N] = x_N
    return found_N


def _may_ask(values: Tensor) -> bool:
    """Whether the host may wait for a number from a GPU."""
    return values.is_cuda and not torch.cuda.is_current_stream_capturing()


@dataclass(frozen=True)
class Mixture(Distribution):
    """Normal components with weights; the log-weights need not be normalised, the scales may be zero."""

    log_weight_M: Tensor
    mean_M: Tensor
    scale_M: Tensor
    stacked: ClassVar[tuple[str, ...]] = ("log_weight_M", "mean_M", "scale_M")

    def pooled(self) -> "Mixture":
        """All components of the mixtures along the first axis, each with the same weight: what an ensemble says."""
        whole = self.broadcast()
        parts = (whole.log_weight_M.log_softmax(-1), whole.mean_M, whole.scale_M)
        return Mixture(*(part.movedim(0, -2).flatten(-2) for part in parts))

    @property
    def weight_M(self) -> Tensor:  # noqa: N802
        """The weights, which sum to one."""
        return self.log_weight_M.softmax(-1)

    @property
    def shape(self) -> torch.Size:
        return (self.log_weight_M + self.mean_M + self.scale_M).shape[:-1]

    @property
    def mean(self) -> Tensor:
        return (self.weight_M * self.mean_M).sum(-1)

    @property
    def standard_deviation(self) -> Tensor:
        weight_M = self.weight_M
        away_M = self.mean_M - (weight_M * self.mean_M).sum(-1, keepdim=True)
        variance = (weight_M * (floored(self.scale_M).square() + away_M.square())).sum(-1)
        return variance.sqrt()

    def nll(self, x: Tensor) -> Tensor:
        nll_M = normal_nll(x.unsqueeze(-1), self.mean_M, floored(self.scale_M))
        return -torch.logsumexp(self.log_weight_M.log_softmax(-1) - nll_M, -1)

    def crps(self, x: Tensor) -> Tensor:
        weight_M, scale_M = self.weight_M, floored(self.scale_M)
        to_x = (weight_M * expected_distance(x.unsqueeze(-1) - self.mean_M, scale_M)).sum(-1)
        apart_MM = self.mean_M.unsqueeze(-1) - self.mean_M.unsqueeze(-2)
        scale_MM = (scale_M.square().unsqueeze(-1) + scale_M.square().unsqueeze(-2)).sqrt()
        between_M = (weight_M.unsqueeze(-2) * expected_distance(apart_MM, scale_MM)).sum(-1)
        return to_x - 0.5 * (weight_M * between_M).sum(-1)

    def cdf(self, x: Tensor) -> Tensor:
        z_M = (x.unsqueeze(-1) - self.mean_M) / floored(self.scale_M)
        return (self.weight_M * probability(z_M)).sum(-1)

    def covers(self, x: Tensor, level: float, rank: Tensor | None = None) -> Tensor:
        """By the probability of smaller values, which is quick; the interval's ends would have to be searched."""
        return ((self.cdf(x) if rank is None else rank) - 0.5).abs() <= level / 2.0

    def quantile(self, level: float | Tensor) -> Tensor:
        return self.from_normal(normal_at(level, self.mean_M))

    def quantiles(self, levels: Sequence[float]) -> Tensor:
        """In one search: a few hundred entries cost hardly more than one."""
        normal = torch.stack([normal_at(level, self.mean_M) for level in levels])
        return self.from_normal(normal.view(-1, *(1 for _ in self.shape)))

    @torch.no_grad()
    def from_normal(self, normal: Tensor) -> Tensor:
        """Found between the lowest and the highest component's own value; without a gradient."""
        whole = self.broadcast()
        weight_M, mean_M, scale_M = whole.weight_M, whole.mean_M, floored(whole.scale_M)
        own_M = mean_M + scale_M * normal.unsqueeze(-1)
        low = torch.where(weight_M > 0.0, own_M, torch.inf).amin(-1)
        high = torch.where(weight_M > 0.0, own_M, -torch.inf).amax(-1)
        # The smaller of the two tails is compared, so that nothing is lost to rounding far out.
        side = torch.where(normal > 0.0, -1.0, 1.0).to(low)
        wanted = probability(side * normal)
        near = torch.finfo(low.dtype).eps ** 0.75 * wanted
        singles = (part.expand_as(low).flatten() for part in (low, high, near, side, wanted))
        stacked = (part.expand_as(own_M).reshape(-1, own_M.shape[-1]) for part in (weight_M, mean_M, scale_M))
        return find_root(_missing, *singles, *stacked).view_as(low)

    @torch.no_grad()
    def draw(self, normal: Tensor, of: Tensor | None = None) -> Tensor:
        """By the component that the rank falls into, lowest mean first, and what is left of the rank inside it.

        No search, so a sixth of the time; where components lie apart it is the value of that rank. Forecasts that many
        draws are made of are put in order once.
        """
        whole, rank = self.broadcast(), probability(normal)
        mean_M, order_M = whole.mean_M.sort(-1)
        weight_M, scale_M = (part.gather(-1, order_M) for part in (whole.weight_M, floored(whole.scale_M)))
        ordered = (weight_M, weight_M.cumsum(-1), mean_M, scale_M)
        parts = ordered if of is None else tuple(part[of] for part in ordered)
        chosen = (rank.unsqueeze(-1) > parts[1][..., :-1]).sum(-1, keepdim=True)
        weight, upto, mean, scale = (
            part.expand(*chosen.shape[:-1], -1).gather(-1, chosen).squeeze(-1) for part in parts
        )
        smallest = torch.finfo(mean.dtype).eps
        inside = (1.0 - (upto - rank) / weight).clamp(smallest, 1.0 - smallest)
        drawn: Tensor = mean + scale * torch.special.ndtri(inside)
        return drawn

    def moved(self, location: Tensor, scale: Tensor) -> "Mixture":
        scale = scale.unsqueeze(-1)
        return replace(self, mean_M=location.unsqueeze(-1) + scale * self.mean_M, scale_M=scale * self.scale_M)

    def fixed_shape(self) -> "Mixture":
        return replace(self, log_weight_M=self.log_weight_M.detach(), scale_M=self.scale_M.detach())

    def with_mean(self, location: Tensor) -> "Mixture":
        return replace(self, mean_M=self.mean_M + (location - self.mean).unsqueeze(-1))


def _missing(
    x: Tensor, side: Tensor, wanted: Tensor, weight_M: Tensor, mean_M: Tensor, scale_M: Tensor
) -> tuple[Tensor, Tensor]:
    """How much probability lies too much below x, or too little above it, and the density there."""
    z_M = (x.unsqueeze(-1) - mean_M) / scale_M
    found = (weight_M * probability(side.unsqueeze(-1) * z_M)).sum(-1)
    return side * (found - wanted), (weight_M * density(z_M) / scale_M).sum(-1)


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
