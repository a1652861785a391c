"""A fast training step on a GPU: pack tokens, use kernels, compile the losses, capture the whole step in a graph.

Everything here changes how the numbers are computed, not which: the plain path on the CPU is the reference.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from crossfeed.model.acceleration import pack_tokens, use_kernels
from crossfeed.model.views import Views, draw_views
from crossfeed.model.world_model import WorldModel
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.windows import WindowSet

WARM_UP = 3
SAMPLED_BATCHES = 64
MARGIN = 6.0  # standard deviations of a batch's token count


class TokenRoom:
    """How much room packed batches need, and on the device how many tokens ever found none."""

    def __init__(self, share: float, lost: Tensor) -> None:
        self.share, self.lost = share, lost

    def watch(self, shown: Sequence[Tensor], capacity: int) -> None:
        """Count the tokens of a batch's views that did not fit; the host looks once an epoch."""
        tokens = torch.stack([m.sum() for m in shown]).sum()
        self.lost.add_((tokens - capacity).clamp(min=0))


def measure_room(windows: WindowSet, config: RunConfig, two_views: bool) -> TokenRoom:
    """Draw some batches' masks and leave six standard deviations of room above their mean."""
    device = windows.last_W.device
    draws = torch.Generator(device=device).manual_seed(0)
    counts = []
    for _ in range(SAMPLED_BATCHES):
        index_B = torch.randint(len(windows), (config.training.batch_size,), generator=draws, device=device)
        views = draw_views(windows.batch(index_B), config.masks, config.objectives.schema_keep, draws)
        counts.append(torch.stack([m.float().mean() for m in shown_views(views, two_views)]).mean())
    share_N = torch.stack(counts)
    share = float(share_N.mean() + MARGIN * share_N.std())
    return TokenRoom(min(1.0, share), torch.zeros((), dtype=torch.long, device=device))


def shown_views(views: Views, two_views: bool) -> list[Tensor]:
    """The masks that a step runs through the encoder."""
    both = [views.m_BKC, views.reduced_m_BKC] if two_views else [views.m_BKC]
    return [m for m in both if m is not None]


def prepare_model(model: WorldModel, room: TokenRoom, seed: Tensor) -> None:
    """Switch the model to the fast path."""
    pack_tokens(model, room.share)
    use_kernels(model, seed)


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
        with torch.cuda.graph(graph):
            self._step()
        self._graph = graph
        graph.replay()
