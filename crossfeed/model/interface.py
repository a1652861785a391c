"""What goes into a network and what comes out: rows, context, plan, prediction; in training views, losses, latents.

B windows, R rows, T planned steps, H horizons, C sensors, A commands, E members, D latent width. Distributions are in
global z-space.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from crossfeed.model.distribution import Distribution
from crossfeed.model.parts.instance_norm import Statistics
from crossfeed.windows.windows import WindowBatch, mean_commands

Stage = Literal["pretrain", "finetune"]


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


@dataclass(frozen=True, slots=True)
class Views:
    """What of a training batch is shown: presence in the context, in a reduced view of it, and units of the errors."""

    m_BKC: Tensor
    reduced_m_BKC: Tensor | None = None
    gain_B1C: Tensor | None = None


Part = TypeVar("Part", WindowBatch, Views)


class ProcessGroup(Protocol):
    """The processes that share one batch."""

    @property
    def size(self) -> int:
        """How many there are."""

    def part(self, whole: Part) -> Part:
        """The windows of this process, of a batch or of its views."""

    def gather(self, own: Tensor) -> Tensor:
        """The rows of all processes, in the order of the batch."""


class Losses(NamedTuple):
    """The terms of a batch by name and, of a network that compares latents, those that it compared."""

    terms: dict[str, Tensor]
    predicted_BHD: Tensor | None = None
    target_BHD: Tensor | None = None

    def total(self, weights: dict[str, float]) -> Tensor:
        """What is minimised: the weighted sum of the terms (Eq. 5, with the likelihood in the second stage)."""
        assert self.terms.keys() == weights.keys(), (self.terms.keys(), weights.keys())
        return torch.stack([weight * self.terms[name] for name, weight in weights.items()]).sum()


@dataclass(frozen=True, slots=True)
class Latents:
    """What a network that compares latents makes of a batch, and the future in the space in which its state lives."""

    state_BD: Tensor
    pooled_BD: Tensor
    predicted_BHD: Tensor
    target_BHD: Tensor
    future_x_BHC: Tensor
