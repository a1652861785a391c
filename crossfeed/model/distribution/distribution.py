"""The interface of everything that is forecast: a marginal distribution for each entry of any shape.

A forecast of B windows, H horizons and C channels has entries BHC. Scores work entry by entry, on the device and in the
type of the parameters, never ask the host for a number and carry all constants, log(2 pi) / 2 of the Gaussian included.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import torch
from torch import Tensor

from crossfeed.errors import ConfigError, ForecastError


class Distribution(ABC):
    """What losses, metrics, conformal layers, adaptation, rollouts and reports know of a forecast.

    Families are frozen dataclasses whose tensors broadcast to the entries' shape.
    """

    has_intervals: ClassVar[bool] = True
    # Fields with one axis more than the entries: components of a mixture, quantiles.
    stacked: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:

        @property
        def mean(self) -> Tensor:
            """The expected value: what the squared error asks for."""

    @property
    def median(self) -> Tensor:
        """The value in the middle: what the absolute error asks for."""
        return self.quantile(0.5)

    @property
    @abstractmethod
    def standard_deviation(self) -> Tensor:
        """The spread of each entry."""

    @abstractmethod
    def nll(self, x: Tensor) -> Tensor | None:
        """Negative log density at `x`, differentiable; None where no density is claimed."""

    @abstractmethod
    def crps(self, x: Tensor) -> Tensor:
        """Continuous ranked probability score at `x`, differentiable."""

    @abstractmethod
    def cdf(self, x: Tensor) -> Tensor:
        """Probability of a value up to `x`: the PIT when `x` is the observation."""

    @abstractmethod
    def quantile(self, level: float | Tensor) -> Tensor:
        """The value that is exceeded with probability 1 - level; one level for all entries, or one for each."""

    def quantiles(self, levels: Sequence[float]) -> Tensor:
        """The values at several levels, stacked along a new first axis."""
        return torch.stack([self.quantile(level) for level in levels])

    def covers(self, x: Tensor, level: float, rank: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Whether `x` lies in the central interval of this probability; `rank` is its `cdf` where that is known."""
        return (x >= self.quantile((1.0 - level) / 2.0)) & (x <= self.quantile((1.0 + level) / 2.0))

    @abstractmethod
    def from_normal(self, normal: Tensor) -> Tensor:
        """The value with the rank that `normal` has among standard normal numbers: common chance for many forecasts."""

    def draw(self, normal: Tensor, of: Tensor | None = None) -> Tensor:
        """A draw made of a standard normal number; the same number, and much the same forecast, give the same draw.

        `of` says for each place along the first axis of the numbers which of the forecasts it is a draw of.
        """
        return (self if of is None else self[of]).from_normal(normal)

    @abstractmethod
    def moved(self, location: Tensor, scale: Tensor) -> Self:
        """The distribution of `location + scale * value`, differentiable; the scale is positive."""

    def fixed_shape(self) -> Self:
        """The same, but only where it stands can still learn: weights, spread and tails are detached."""
        return self.map(Tensor.detach).with_mean(self.mean)

    @abstractmethod
    def with_mean(self, location: Tensor) -> Self:
        """The same shape with its mean at `location`."""

    def rescaled(self, location: Tensor, scale: Tensor) -> Self:
        """The distribution of `location + scale * value` in double precision on the CPU, detached from any graph."""
        return self.plain().moved(location, scale)

    def plain(self) -> Self:
        """In double precision on the CPU, detached from any graph."""
        return self.map(lambda values: values.detach().to("cpu", torch.float64))

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The same family with each of its tensors changed, such as moved to a device."""
        return self._changed(lambda _, values: function(values))

    def double(self) -> Self:
        """In double precision, where it lies."""
        return self.map(Tensor.double)

    @property
    def shape(self) -> torch.Size:
        """The shape of the entries."""
        return self.mean.shape

    def broadcast(self) -> Self:
        """Every tensor at the full shape of the entries."""
        shape = self.shape

        def full(name: str, values: Tensor) -> Tensor:
            return values.expand(*shape, values.shape[-1]) if name in self.stacked else values.expand(shape)

        return self._changed(full)

    def __getitem__(self, index: Any) -> Self:
        """Some of the entries, chosen as from a tensor."""
        index = index if isinstance(index, tuple) else (index,)
        open_ended = any(item is Ellipsis for item in index)

        def chosen(name: str, values: Tensor) -> Tensor:
            return values[(*index, slice(None))] if open_ended and name in self.stacked else values[index]

        return self.broadcast()._changed(chosen)

    @classmethod
    def concatenate(cls, parts: Sequence["Distribution"], axis: int = 0) -> "Distribution":
        """Several forecasts of one family, one after the other along an axis counted from the front."""
        return _joined(parts, lambda pieces: torch.cat(pieces, axis))

    @classmethod
    def stack(cls, parts: Sequence["Distribution"], axis: int = 0) -> "Distribution":
        """Several forecasts of one family and shape along a new axis counted from the front."""
        return _joined(parts, lambda pieces: torch.stack(pieces, axis))

    def _changed(self, function: Callable[[str, Tensor], Tensor]) -> Self:
        tensors = {name: function(name, values) for name, values in tensors_of(self).items()}
        return cast(Self, replace(cast(Any, self), **tensors))


def tensors_of(distribution: Distribution) -> dict[str, Tensor]:
    """The parameters of a distribution by name."""
    found = {field.name: getattr(distribution, field.name) for field in fields(cast(Any, distribution))}
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def _joined(parts: Sequence[Distribution], join: Callable[[list[Tensor]], Tensor]) -> Distribution:
    families = sorted({type(part).__name__ for part in parts})
    if len(families) != 1:
        raise ForecastError(
            f"Forecasts of the families {', '.join(families) or 'none'} cannot be joined.",
            expected="at least one forecast, all of the same family",
        )
    pieces = [tensors_of(part.broadcast()) for part in parts]
    return parts[0]._changed(lambda name, _: join([piece[name] for piece in pieces]))


def floored(scale: Tensor) -> Tensor:
    """A spread that may be zero, as one that can be divided by, for all families.

    At this floor (2.6e-8 in single precision) the steepest gradient there is, squared distance over cubed spread, is
    still a number for distances of a million.
    """
    return scale.clamp_min(torch.finfo(scale.dtype).tiny ** 0.2)


def density(z: Tensor) -> Tensor:
    """The standard normal density."""
    return torch.exp(-0.5 * z.square()) * (1.0 / math.sqrt(2.0 * math.pi))


def probability(z: Tensor) -> Tensor:
    """The standard normal distribution function, exact far below zero as well, where 1 + erf would be rounded off."""
    return 0.5 * torch.erfc(z * -math.sqrt(0.5))


def normal_nll(x: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """The negative logarithm of a normal density, its constant included."""
    return 0.5 * (((x - mean) / scale).square() + math.log(2.0 * math.pi)) + scale.log()


def expected_distance(distance: Tensor, scale: Tensor) -> Tensor:
    """E|N(distance, scale^2)|, written so that neither it nor its gradient cancels far out."""
    z = distance / scale
    return distance * torch.erf(z * math.sqrt(0.5)) + 2.0 * scale * density(z)


def normal_at(level: float | Tensor, like: Tensor) -> Tensor:
    """The standard normal number of this rank, with the type and device of `like`."""
    if isinstance(level, Tensor):
        number: Tensor = torch.special.ndtri(level.to(like))
        return number
    # A fill instead of a copy from the host, which would make the device wait.
    return torch.full((), NormalDist().inv_cdf(checked(level)), dtype=like.dtype, device=like.device)


def checked(level: float) -> float:
    """A level that a quantile can be given for."""
    if not 0.0 < level < 1.0:
        raise ConfigError(f"A quantile at level {level:g} was asked for.", expected="a level between 0 and 1")
    return level


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


@dataclass(frozen=True)
class Point(Distribution):
    """One value, which says nothing about its own error: no density, no intervals, the absolute error as CRPS."""

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
