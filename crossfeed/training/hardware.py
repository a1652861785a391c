"""A fast training step on a GPU by the library alone: bf16, compiled losses, the whole step captured in a graph.

Everything here changes how the numbers are computed, not which: the plain path on the CPU is the reference."""

import gc
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, distributed

from crossfeed.errors import ConfigError
from crossfeed.model.interface import Part
from crossfeed.training.config import Precision

P = ParamSpec("P")
R = TypeVar("R")
AMPERE = 8  # first generation of NVIDIA cards with real bf16 units
WARM_UP = 3


def has_bf16(device: torch.device) -> bool:
    """Whether bf16 is computed by the hardware; emulated bf16 is several times slower than float32."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= AMPERE


def resolve_precision(wanted: Precision, device: torch.device) -> str:
    """`float32` or `bf16`; asking for bf16 where it would only be emulated is refused."""
    if wanted == "bf16" and not has_bf16(device):
        raise ConfigError(
            f"training.precision is bf16, but {device} computes bf16 only by emulation.",
            remedy="Set training.precision=auto (float32 here) or train on a GPU of compute capability 8.0 or newer.",
        )
    return "bf16" if wanted != "float32" and has_bf16(device) else "float32"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context in which forward passes run."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Collect garbage now and not again until the end: freeing an older graph's memory would spoil a capture."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class CapturedStep:
    """Runs a step a few times as it is, then captures it once and replays it: no launch is paid for again."""

    def __init__(self, step: Callable[[], None], generators: tuple[torch.Generator, ...]) -> None:
        self._step, self._generators = step, generators
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self._graph is not None:
            self._graph.replay()
            return
        if self._calls < WARM_UP:
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")
                self._step()
            torch.cuda.current_stream().wait_stream(side)
            self._calls += 1
            return
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        with garbage_collection_paused(), torch.cuda.graph(graph):
            self._step()
        self._graph = graph
        graph.replay()


def compiled(function: Callable[P, R], backend: str = "inductor") -> Callable[P, R]:
    """The same function, compiled at its first call; a machine that cannot compile is told what to do instead.

    Half a minute to a minute is paid first. The library keeps what it made in TORCHINDUCTOR_CACHE_DIR (a folder under
    /tmp unless that is set) and finds it again in other processes: a search pays once, not once a candidate.
    """
    quick = torch.compile(function, dynamic=False, backend=backend)

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        from torch._dynamo.exc import TorchDynamoException

        try:
            return quick(*args, **kwargs)
        except TorchDynamoException as error:
            raise ConfigError(
                f"The losses could not be compiled on this machine: {_reason(error)}",
                expected="a C compiler and Triton beside torch",
                remedy="Install them, or train with training.acceleration=off, which compiles nothing.",
            ) from error

    return call


def _reason(error: Exception) -> str:
    """Its first two lines: the library says who failed before it says why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) or type(error).__name__


# One run on several devices, started by torchrun: every process takes its share of each batch.


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
