"""A fast training step on a GPU: pack tokens, use kernels, run the teacher beside, capture the whole step in a graph.

Everything here changes how the numbers are computed, not which: the plain path on the CPU is the reference.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from crossfeed.model.fast.acceleration import hash_dropout, pack_tokens, use_attention_kernels, use_row_kernels
from crossfeed.model.jepa.model import JepaModel
from crossfeed.model.jepa.objectives import ObjectiveConfig, Seen, Stage, Views, draw_views, predict_views
from crossfeed.model.parts.dropout import Seeds
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.windows import WindowBatch, WindowSet

WARM_UP = 3
SAMPLED_BATCHES = 64
MARGIN = 6.0  # standard deviations of a batch's token count


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
