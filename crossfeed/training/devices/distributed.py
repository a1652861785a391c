"""One run on several devices, started by torchrun: every process takes its share of each batch.

`training.batch_size` counts the windows of all processes together, so a run gives the same numbers on one device and
on several. Every process knows the whole batch and draws its masks; it runs its own share through the network, gathers
what all processes found, and computes the losses of the whole batch. VICReg and the means over present entries are
therefore those of one process with the whole batch. The losses of the sensor network are plain means: nothing is
gathered. Only dropout differs: each process drops other entries.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, distributed

from crossfeed.errors import ConfigError
from crossfeed.model.interface import Part


@dataclass(frozen=True, slots=True)
class Team:
    """The processes that train one model; a run of a single process is a team of one."""

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
        whole: Tensor = _Gather.apply(own.contiguous(), self)  # type: ignore[no-untyped-call]
        return whole


@contextmanager
def teamwork(device: torch.device) -> Iterator[Team]:
    """Join the other processes of a torchrun, if there are any, and leave them at the end."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "MASTER_ADDR" not in os.environ:
        yield Team()
        return
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Team(distributed.get_rank(), size)
    finally:
        distributed.destroy_process_group()


def is_leading_process() -> bool:
    """Whether this process is the one of a torchrun that talks to people; a process on its own always is."""
    return os.environ.get("RANK", "0") == "0"


def own_device(name: str) -> str:
    """`cuda` and `auto` mean this process's own GPU when torchrun started several."""
    local = os.environ.get("LOCAL_RANK")
    several = local is not None and torch.cuda.device_count() > 1
    return f"cuda:{local}" if several and name in ("auto", "cuda") else name


class _Gather(torch.autograd.Function):
    """All processes' rows. Backward takes the own rows times the team's size.

    Every process computes the whole loss, so its gradient for its own rows is complete. The mean over processes then
    adds up the shares of the network's weights, and leaves weights that only the losses use as they are.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, team: Team) -> Tensor:
        ctx.team = team
        parts = [torch.empty_like(own) for _ in range(team.size)]
        distributed.all_gather(parts, own.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        team: Team = ctx.team
        return gradient.chunk(team.size)[team.rank] * team.size, None
