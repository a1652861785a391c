"""The interface of everything that is forecast: a marginal distribution for each entry of any shape.

A forecast of B windows, H horizons and C channels has entries BHC. Scores work entry by entry, on the device and in the
type of the parameters, never ask the host for a number and carry all constants, log(2 pi) / 2 of the Gaussian included.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import torch
from torch import Tensor

from crossfeed.errors import ForecastError


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
