"""What goes into a network and what comes out: rows, context, plan, prediction; in training views, losses, latents.

B windows, R rows, T planned steps, H horizons, C sensors, A commands, E members, D latent width. Distributions are in
global z-space.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, Self, TypeVar

import torch
from torch import Tensor, distributed

from crossfeed.errors import ConfigError
from crossfeed.model.distribution import Distribution
from crossfeed.model.parts.instance_norm import Statistics
from crossfeed.windows.windows import WindowBatch, mean_commands

Stage = Literal["pretrain", "finetune"]
PackedPrecision = Literal["float32", "bfloat16"]


# An encoded window of either network, to be decoded under any plan; callers hand it on without looking inside.
Context = Any


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as a network keeps them, along the second axis: windows of them become contexts, and more may follow."""

    parts: tuple[Tensor, ...]
    level: Statistics | None  # what was taken out of them
    channels: Tensor | None = None  # those worth reading, where the others are absent throughout

    def window(self, start: int, stop: int) -> "Rows":
        """The rows from `start` up to `stop`."""
        return replace(self, parts=tuple(part[:, start:stop] for part in self.parts))

    def followed_by(self, later: "Rows") -> "Rows":
        """These rows and later ones that were read under the same level."""
        return replace(self, parts=tuple(torch.cat(pair, 1) for pair in zip(self.parts, later.parts, strict=True)))

    def __len__(self) -> int:
        return self.parts[0].shape[1]


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


@dataclass(frozen=True, slots=True)
class Views:
    """What of a training batch is shown: presence in the context, in a reduced view of it, and units of the errors."""

    m_BKC: Tensor
    reduced_m_BKC: Tensor | None = None
    gain_B1C: Tensor | None = None


Part = TypeVar("Part", WindowBatch, Views)


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The processes that train one model; one process alone is a group too."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes the files and speaks."""
        return self.rank == 0

    def check_batch(self, batch_size: int) -> None:
        """Refuse a batch that cannot be shared equally."""
        if batch_size % self.size:
            raise ConfigError(
                f"A batch of {batch_size} windows cannot be shared equally by {self.size} processes.",
                remedy=f"Set training.batch_size to a multiple of {self.size}; it counts the windows of all together.",
            )

    def part(self, whole: Part) -> Part:
        """This process's windows of a batch or of its masks."""

        def own(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.chunk(self.size)[self.rank]

        parts: dict[str, Any] = {field.name: own(getattr(whole, field.name)) for field in fields(whole)}
        return replace(whole, **parts)

    def wait(self) -> None:
        """Go on when all processes have come this far."""
        if self.size > 1:
            distributed.barrier()

    def agree(self, number: float, device: torch.device) -> float:
        """The number the leading process has, so that all take the same decision."""
        if self.size == 1:
            return number
        value = torch.tensor(number, dtype=torch.float64, device=device)
        distributed.broadcast(value, src=0)
        return float(value)

    def mean(self, numbers: Tensor) -> Tensor:
        """The mean over the processes of what each of them found."""
        if self.size == 1:
            return numbers
        distributed.all_reduce(numbers)
        return numbers / self.size

    def average(self, parameters: Sequence[Tensor]) -> None:
        """Replace the gradients by their mean over the processes."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self.size == 1 or not gradients:
            return
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        means = torch.split(flat / self.size, [gradient.numel() for gradient in gradients])
        torch._foreach_copy_(gradients, [mean.view_as(own) for mean, own in zip(means, gradients, strict=True)])

    def gather(self, own: Tensor) -> Tensor:
        """The rows of all processes, in the order of the batch."""
        own = own.view_as(own)
        parts = [torch.empty_like(own) for _ in range(self.size)]
        distributed.all_gather(parts, own.detach().contiguous())
        if own.requires_grad:
            # Every process computes the whole loss, so its gradient for its own rows is complete. The mean over
            # processes then adds up the shares of the network's weights, and leaves those that only losses use.
            own.register_hook(lambda gradient: gradient * self.size)  # type: ignore[no-untyped-call]
        parts[self.rank] = own
        return torch.cat(parts)


ALONE = ProcessGroup()


class Losses(NamedTuple):
    """The terms of a batch by name and, of a network that compares latents, those that it compared."""

    terms: dict[str, Tensor]
    predicted_BHD: Tensor | None = None
    target_BHD: Tensor | None = None

    def total(self, weights: dict[str, float]) -> Tensor:
        """What is minimised: the weighted sum of the terms (Eq. 5, with the likelihood in the second stage)."""
        assert self.terms.keys() == weights.keys(), (self.terms.keys(), weights.keys())
        return torch.stack([weight * self.terms[name] for name, weight in weights.items()]).sum()


class Latents(NamedTuple):
    """What a network that compares latents makes of a batch, and the future in the space in which its state lives."""

    state_BD: Tensor
    future_x_BHC: Tensor
    future_m_BHC: Tensor
    pooled_BD: Tensor
    target_BHD: Tensor
    predicted_BHD: Tensor
