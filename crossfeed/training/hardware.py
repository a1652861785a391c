"""How a step runs here, by the library alone: bf16, compiled losses, the step captured in a graph, several processes.

Everything here changes how the numbers are computed, not which: the plain path on the CPU is the reference.
"""

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import ParamSpec, TypeVar

import torch
from torch import distributed

from crossfeed.errors import ConfigError
from crossfeed.model.interface import ProcessGroup
from crossfeed.progress import console
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


def compiled(function: Callable[P, R], backend: str = "inductor", required: bool = False) -> Callable[P, R]:
    """The same function, compiled at its first call; where that cannot be done, the function as it is, or an error.

    Half a minute to a minute is paid first. The library keeps what it made in TORCHINDUCTOR_CACHE_DIR (a folder under
    /tmp unless that is set) and finds it again in other processes: a search pays once, not once a candidate.
    """
    chosen: Callable[P, R] | None = None

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal chosen
        if chosen is not None:
            return chosen(*args, **kwargs)
        # Without Triton, a C compiler or a Python that it supports the library raises several kinds of this.
        try:
            quick = torch.compile(function, dynamic=False, backend=backend)
            result = quick(*args, **kwargs)
        except RuntimeError as error:
            # The library says who failed before it says why.
            reason = " ".join([line.strip() for line in str(error).splitlines() if line.strip()][:2])
            if required:
                raise ConfigError(
                    f"The losses could not be compiled on this machine: {reason}",
                    expected="a C compiler and Triton beside torch",
                    remedy="Install them, or train with training.acceleration=auto, which goes on without.",
                ) from error
            console().print(f"The step is not compiled, which costs time and changes no result: {reason}", markup=False)
            chosen = function
            return function(*args, **kwargs)
        chosen = quick
        return result

    return call


@contextmanager
def process_group(device: torch.device) -> Iterator[ProcessGroup]:
    """Join the other processes of a torchrun, if there are any, and leave them at the end."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "MASTER_ADDR" not in os.environ:
        yield ProcessGroup()
        return
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield ProcessGroup(distributed.get_rank(), size)
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
