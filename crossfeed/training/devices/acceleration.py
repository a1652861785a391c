"""A fast training step on a GPU: bf16, packed tokens, kernels, the teacher beside, the whole step in a graph.

Everything here changes how the numbers are computed, not which: the plain path on the CPU is the reference.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from crossfeed.errors import ConfigError
from crossfeed.model.fast.acceleration import hash_dropout, pack_tokens, use_attention_kernels, use_row_kernels
from crossfeed.model.jepa.model import JepaModel
from crossfeed.model.jepa.objectives import ObjectiveConfig, Seen, Stage, Views, draw_views, predict_views
from crossfeed.model.parts.dropout import Seeds
from crossfeed.training.config import Precision
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.windows import WindowBatch, WindowSet

P = ParamSpec("P")
R = TypeVar("R")
AMPERE = 8  # first generation of NVIDIA cards with real bf16 units
WARM_UP = 3
SAMPLED_BATCHES = 64
MARGIN = 6.0  # standard deviations of a batch's token count


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


@dataclass(frozen=True, slots=True)
class TokenCapacity:
    """How much room packed batches need, and on the device how many tokens ever found none; must stay 0."""

    share: float
    lost: Tensor


def measure_token_capacity(
    model: JepaModel, windows: WindowSet, config: RunConfig, two_views: bool, batch_size: int
) -> TokenCapacity:
    """Draw the masks of some batches and leave six standard deviations of room above their mean."""
    device = windows.last_W.device
    draws = torch.Generator(device=device).manual_seed(0)
    counts = []
    for _ in range(SAMPLED_BATCHES):
        index_B = torch.randint(len(windows), (batch_size,), generator=draws, device=device)
        views = draw_views(windows.batch(index_B), config.masks, config.latents.schema_keep, draws)
        counts.append(share_of_tokens(model, views, two_views))
    share_N = torch.stack(counts)
    share = float(share_N.mean() + MARGIN * share_N.std())
    return TokenCapacity(min(1.0, share), torch.zeros((), dtype=torch.long, device=device))


def share_of_tokens(model: JepaModel, views: Views, two_views: bool) -> Tensor:
    """Which part of all tokens the encoder reads in the views that a step runs through it."""
    shown = [views.m_BKC, views.reduced_m_BKC] if two_views else [views.m_BKC]
    read = model.context_encoder.row.read
    return torch.stack([read(m.flatten(0, 1)).float().mean() for m in shown if m is not None]).mean()


def prepare_model(model: JepaModel, capacity: TokenCapacity, seeds: Seeds, precision: str) -> None:
    """Switch the model to the fast path."""
    from crossfeed.model.fast import row_operators

    pack_tokens(model, capacity.share, capacity.lost)
    hash_dropout(model, seeds)
    use_attention_kernels(model, seeds)
    use_row_kernels(model, torch.bfloat16 if precision == "bf16" else torch.float32, row_operators)


class TeacherStream:
    """`objectives.see` with the teacher on a stream of its own.

    Its batches are small and leave most of a GPU idle; the student needs its latents only when the losses are taken.
    """

    def __init__(self) -> None:
        self._beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def __call__(
        self, model: JepaModel, batch: WindowBatch, views: Views, stage: Stage, config: ObjectiveConfig
    ) -> Seen:
        here = torch.cuda.current_stream()
        self._beside.wait_stream(here)
        with torch.cuda.stream(self._beside):
            target_BHD = model.encode_target(batch, views.m_BKC)
        full, reduced = predict_views(model, batch, views, stage, config)
        here.wait_stream(self._beside)
        return Seen(full, reduced, target_BHD)


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
            with torch.cuda.stream(side):
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

    Two fifths of a step saved, half a minute to pay first: worth it for long runs alone, so only for who asks for it.
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
                remedy="Install them, or train with training.acceleration=auto, which compiles nothing.",
            ) from error

    return call


def _reason(error: Exception) -> str:
    """Its first two lines: the library says who failed before it says why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) or type(error).__name__
