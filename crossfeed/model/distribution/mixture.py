"""A mixture of normals, for signals that stand still and then jump. M components along the last axis."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from crossfeed.model.distribution.distribution import (
    Distribution,
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
