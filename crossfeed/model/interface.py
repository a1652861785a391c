"""What goes into a network's `encode` and `decode` and what comes out: rows, context, plan, prediction.

B windows, R rows, T planned steps, H horizons, C sensors, A commands, E members, D latent width. Distributions are in
global z-space.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

from torch import Tensor

from crossfeed.distribution import Distribution
from crossfeed.model.parts.instance_norm import Statistics
from crossfeed.windows.windows import WindowBatch, mean_commands


class Rows(Protocol):
    """Rows that need not be read again: windows of them become contexts, and further rows may follow."""

    @property
    def level(self) -> Statistics | None:
        """What was taken out of them."""

    def window(self, start: int, stop: int) -> "Rows":
        """The rows from `start` up to `stop`."""

    def followed_by(self, later: Any) -> "Rows":
        """These rows and later ones that were read under the same level."""

    def __len__(self) -> int: ...


class Context(Protocol):
    """An encoded window, to be decoded under any plan; callers hand it on without looking inside."""

    def map(self, function: Callable[[Tensor], Tensor]) -> Any:
        """The same with each of its tensors changed; windows lie along the first axis."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Planned commands step by step, their mean up to each horizon, and the horizons that are asked for."""

    future_a_BTA: Tensor
    mean_a_BHA: Tensor
    horizons: tuple[int, ...]

    @classmethod
    def of(cls, batch: WindowBatch, horizons: tuple[int, ...]) -> Self:
        """What a window batch, cut for these horizons, says was commanded."""
        return cls(batch.future_a_BTA, batch.mean_a_BHA, horizons)

    @classmethod
    def under(cls, future_a_BTA: Tensor, horizons: tuple[int, ...]) -> Self:
        """Any commands, for any horizons up to their end."""
        return cls(future_a_BTA, mean_commands(future_a_BTA, horizons), horizons)

    def repeated(self, copies: int) -> "Plan":
        """The same plans again for further views of the same windows."""
        return Plan(self.future_a_BTA.repeat(copies, 1, 1), self.mean_a_BHA.repeat(copies, 1, 1), self.horizons)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A forecast of a batch under one plan, with the latents and the context it came from.

    Where several members were asked, `member_mean_EBHC` is what each of them expects.
    """

    latent_BHD: Tensor
    distribution: Distribution
    context: Context
    member_mean_EBHC: Tensor | None = None

    @property
    def disagreement(self) -> Tensor | None:
        """How far members are apart (B, H, C): the deviation of their means in z-units; None where none were asked."""
        return None if self.member_mean_EBHC is None else self.member_mean_EBHC.std(0, correction=0)

    def map(self, function: Callable[[Tensor], Tensor]) -> "Prediction":
        """The same, without members, with each of its tensors changed; windows lie along the first axis."""
        whole = self.distribution.broadcast()
        return Prediction(function(self.latent_BHD), whole.map(function), self.context.map(function))

    def __getitem__(self, windows: slice) -> "Prediction":
        """What is said about some of the windows."""
        return self.map(lambda values: values[windows])

    def split(self, size: int) -> "tuple[Prediction, ...]":
        """The predictions of several views that went through the model as one batch."""
        return tuple(self[start : start + size] for start in range(0, len(self.latent_BHD), size))
