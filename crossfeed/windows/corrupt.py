"""Five ways to hide parts of a context window, drawn for a whole batch on its device, with fixed shapes.

Masks get their randomness from a torch generator while training, from a hash of (seed, window) for validation.

Shapes: B batch, K context, C sensors, R runs, E entries of a window. Masks are True where an entry may be seen.
A corrupted window keeps at least one channel that was present before; a window in which nothing was present stays
empty, and the model meets it as commands without any observation.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from crossfeed.configuration import CheckedForm
from crossfeed.windows.windows import WindowBatch

# Given a shape that starts with B, uniform numbers in [0, 1); each call gives fresh ones.
Draw = Callable[[tuple[int, ...]], Tensor]

# The constants of the splitmix64 finaliser, as signed 64-bit integers.
_STEP = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64

MaskMode = Literal["none", "random", "block", "channel", "event", "mixed"]
EVENT_QUANTILE = 0.8
SHORTEST_RUN, LONGEST_RUN = 2, 12
SHIFTED, FARTHEST_SHIFT = 0.5, 2.0  # share of the channels that a level shift moves, and how far at most, in z-units


class MaskConfig(CheckedForm):
    """How much is hidden, and in which shape; `ratio` has no effect in channel mode, which uses `channel_drop`."""

    mode: MaskMode = "channel"
    ratio: float = Field(default=0.35, ge=0.0, lt=1.0)
    channel_drop: float = Field(default=0.15, ge=0.0, lt=1.0)


def corrupt(x_BKC: Tensor, m_BKC: Tensor, config: MaskConfig, generator: torch.Generator) -> Tensor:
    """Hide entries for training; the generator must live on the device of the batch."""
    return _corrupt(x_BKC, m_BKC, config, generator_draw(generator))


def validation_masks(x_BKC: Tensor, m_BKC: Tensor, window_B: Tensor, config: MaskConfig, seed: int) -> Tensor:
    """Hide entries for validation: the same mask for the same protocol seed and window, whoever asks."""
    return _corrupt(x_BKC, m_BKC, config, window_draw(seed, window_B))


def schema_view(m_BKC: Tensor, keep: float, generator: torch.Generator) -> Tensor:
    """A further view in which each whole channel is kept with probability `keep`, and at least one that was present."""
    draw = generator_draw(generator)
    return _never_empty(m_BKC, m_BKC & (draw((len(m_BKC), 1, m_BKC.shape[2])) < keep), draw)


def level_shift(batch: WindowBatch, seed: int) -> WindowBatch:
    """The batch as another machine would show it: constants of either sign added to whole channels.

    Context and targets of a channel move together. Deterministic in (seed, window).
    """
    draw = window_draw(seed, batch.last_index_B)
    shape = (len(batch.x_BKC), 1, batch.x_BKC.shape[2])
    offset_B1C = (2.0 * draw(shape) - 1.0) * FARTHEST_SHIFT * (draw(shape) < SHIFTED)
    return replace(
        batch,
        x_BKC=batch.x_BKC + offset_B1C * batch.m_BKC,
        future_x_BHC=batch.future_x_BHC + offset_B1C * batch.future_m_BHC,
    )


def _corrupt(x_BKC: Tensor, m_BKC: Tensor, config: MaskConfig, draw: Draw) -> Tensor:
    if config.mode == "none":
        return m_BKC
    shape, ratio = (m_BKC.shape[0], m_BKC.shape[1], m_BKC.shape[2]), config.ratio
    if config.mode == "random":
        hidden = draw(shape) < ratio
    elif config.mode == "block":
        hidden = hidden_runs(shape, ratio, draw)
    elif config.mode == "channel":
        hidden = _channel(shape, config.channel_drop, draw)
    elif config.mode == "event":
        hidden, of_events = _events(x_BKC, m_BKC), _share_of_events(ratio)
        if of_events < 1.0:
            hidden = hidden & (draw(shape) < of_events)
    else:
        single, of_events = 0.35 * ratio, _share_of_events(0.20 * ratio)
        hidden = hidden_runs(shape, 0.30 * ratio, draw) | _channel(shape, config.channel_drop, draw)
        # One draw serves twice: what is left above `single` is uniform again, and decides about the events.
        lot_BKC = draw(shape)
        hidden = hidden | (lot_BKC < single)
        hidden = hidden | (_events(x_BKC, m_BKC) & (lot_BKC < single + (1.0 - single) * of_events))
    return _never_empty(m_BKC, m_BKC & ~hidden, draw)


def _share_of_events(ratio: float) -> float:
    """Which part of the events is hidden, so that about `ratio` of all entries are."""
    return min(1.0, ratio / (1.0 - EVENT_QUANTILE))


def _channel(shape: tuple[int, int, int], probability: float, draw: Draw) -> Tensor:
    """Whole channels, as on a machine without the sensor."""
    return draw((shape[0], 1, shape[2])) < probability


def _events(x_BKC: Tensor, m_BKC: Tensor) -> Tensor:
    """Steps whose absolute change is strictly above the channel's 0.8 quantile in the window.

    With n changes, "above the interpolated quantile" and "above the order statistic floor(0.8 (n - 1))" are the same
    set, so no interpolation is needed. Only changes between two present entries count.
    """
    steps = m_BKC.shape[1]
    if steps < 2:
        return torch.zeros_like(m_BKC)
    both_present = m_BKC[:, 1:] & m_BKC[:, :-1]
    change = torch.where(both_present, (x_BKC[:, 1:] - x_BKC[:, :-1]).abs(), -1.0)
    from_top = math.ceil((1.0 - EVENT_QUANTILE) * (steps - 2) - 1e-9)
    largest_BTC = change.topk(from_top + 1, dim=1).values
    last_BC = (both_present.sum(1) - 1).clamp_min(0)
    rank_BC = torch.ceil((1.0 - EVENT_QUANTILE) * last_BC - 1e-4).long()
    threshold_B1C = largest_BTC.gather(1, rank_BC[:, None])
    event = both_present & (change > threshold_B1C)
    return torch.cat([torch.zeros_like(event[:, :1]), event], dim=1)


def _never_empty(before_BKC: Tensor, after_BKC: Tensor, draw: Draw) -> Tensor:
    """Give an emptied window one channel back, drawn from those that were present; fixed shapes, no branch."""
    batch, _, channels = before_BKC.shape
    # Sums and the largest byte instead of any(): four and six times quicker on a CPU.
    present_BC = before_BKC.sum(1) > 0
    empty_B = after_BKC.reshape(batch, -1).view(torch.uint8).amax(1) == 0
    lot_BC = torch.where(present_BC, draw((batch, channels)), -1.0)
    chosen_BC = torch.arange(channels, device=lot_BC.device) == lot_BC.argmax(1, keepdim=True)
    return after_BKC | ((empty_B[:, None] & chosen_BC)[:, None, :] & before_BKC)


def hidden_runs(shape: tuple[int, int, int], ratio: float, draw: Draw) -> Tensor:
    """Runs of 2..12 steps, each inside one channel and apart from the next, until `ratio` of the entries are hidden.

    Lengths are drawn so that they add up exactly. Longest first, each run is given to a channel that has room for it
    and for a visible step behind it. Every channel is a ring: visible steps fall between its runs at random, and it
    is cut open at random, but never so that a single step of a run is cut off. Where nothing has room any more (far
    above the ratios anybody trains with) a run is shortened or left out; fewer than three steps have no room at all.
    """
    batch, steps, channels = shape
    wanted = _run_lengths(batch, round(ratio * steps * channels), min(LONGEST_RUN, steps - 1), draw)
    if wanted.shape[1] == 0:
        return torch.zeros(shape, dtype=torch.bool, device=wanted.device)
    channel_BR, length_BR, room_BC = _channels_of_runs(wanted, steps, channels, draw)
    lot_BR = draw((batch, wanted.shape[1]))
    order_BR = (channel_BR + lot_BR).argsort(1)
    channel_BR, length_BR, lot_BR = (part.gather(1, order_BR) for part in (channel_BR, length_BR, lot_BR))
    taken_BR = length_BR + (length_BR > 0)
    taken_before_BC = (steps - room_BC).cumsum(1) - (steps - room_BC)
    before_BR = taken_BR.cumsum(1) - taken_BR - taken_before_BC.gather(1, channel_BR)
    free_BR = room_BC.gather(1, channel_BR)
    start_BR = before_BR + torch.minimum((lot_BR * (free_BR + 1)).long(), free_BR)
    one_BR = (length_BR > 0).to(torch.int8)
    edge_BE = torch.zeros((batch, channels * steps + 1), dtype=torch.int8, device=start_BR.device)
    first_BR = (channel_BR * steps + start_BR) * one_BR
    edge_BE.scatter_add_(1, first_BR, one_BR).scatter_add_(1, first_BR + length_BR, -one_BR)
    ring_BCK = edge_BE[:, :-1].cumsum(1, dtype=torch.int8).view(batch, channels, steps) > 0
    return _cut_open(ring_BCK, draw).transpose(1, 2).contiguous()


def _channels_of_runs(wanted_BR: Tensor, steps: int, channels: int, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    """The channel of every run, its length where it found room, and the steps that each channel has left."""
    batch, runs = wanted_BR.shape
    race_BRC = -torch.log1p(-draw((batch, runs, channels)))
    room_BC = torch.full((batch, channels), steps, dtype=torch.long, device=wanted_BR.device)
    chosen, lengths = [], []
    for run in range(runs):
        length_B = torch.minimum(wanted_BR[:, run], room_BC.amax(1) - 1)
        length_B = torch.where(length_B < SHORTEST_RUN, 0, length_B)
        places_BC = (room_BC - length_B[:, None]).clamp_min(0)
        # The winner of this race is a channel drawn by the number of places it has for the run.
        channel_B = torch.where(places_BC > 0, race_BRC[:, run] / places_BC, torch.inf).argmin(1)
        room_BC.scatter_add_(1, channel_B[:, None], -(length_B + (length_B > 0))[:, None])
        chosen.append(channel_B)
        lengths.append(length_B)
    return torch.stack(chosen, 1), torch.stack(lengths, 1), room_BC


def _cut_open(ring_BCK: Tensor, draw: Draw) -> Tensor:
    """Every ring as a row that begins at a random step; beside a run where the cut would leave a single step of it."""
    batch, channels, steps = ring_BCK.shape
    begin_BC1 = (draw((batch, channels, 1)) * steps).long().clamp_max(steps - 1)

    def hidden(offset: int) -> Tensor:
        return ring_BCK.gather(2, (begin_BC1 + offset) % steps)

    inside = hidden(-1) & hidden(0)
    first_alone, last_alone = inside & ~hidden(-2), inside & hidden(-2) & ~hidden(1)
    begin_BC1 = begin_BC1 - first_alone.long() + last_alone.long()
    return ring_BCK.gather(2, (begin_BC1 + torch.arange(steps, device=ring_BCK.device)) % steps)


def _run_lengths(batch: int, wanted: int, longest: int, draw: Draw) -> Tensor:
    """Lengths of 2 to `longest` that add up to `wanted`, longest first; zeros at the end are runs not needed."""
    if longest < SHORTEST_RUN:
        return draw((batch, 0)).long()
    wanted = max(wanted, SHORTEST_RUN) if wanted else 0
    wanted -= wanted % 2 if longest == SHORTEST_RUN else 0
    spread = longest - SHORTEST_RUN + 1
    length_BR = SHORTEST_RUN + (draw((batch, _enough_runs(wanted, longest))) * spread).long().clamp_max(spread - 1)
    before_BR = length_BR.cumsum(1) - length_BR
    length_BR = torch.minimum(length_BR, (wanted - before_BR).clamp_min(0))
    # A last run of a single step joins the one before it, or takes a step from it where that one is full.
    single_BR = length_BR == 1
    neighbour_BR = torch.cat([single_BR[:, 1:], torch.zeros_like(single_BR[:, :1])], 1)
    full_BR = neighbour_BR & (length_BR == longest)
    takes_BR = single_BR & torch.cat([torch.zeros_like(full_BR[:, :1]), full_BR[:, :-1]], 1)
    length_BR = length_BR + neighbour_BR.long() - 2 * full_BR.long() - single_BR.long() + 2 * takes_BR.long()
    return length_BR.sort(1, descending=True).values


def _enough_runs(wanted: int, longest: int) -> int:
    """So many runs that their lengths reach `wanted` in practically every window: six deviations above the mean."""
    mean = 2.0 * wanted / (SHORTEST_RUN + longest)
    return math.ceil(mean + 3.0 * math.sqrt(mean)) + 2 if wanted else 0


def generator_draw(generator: torch.Generator) -> Draw:
    """Draws from a generator, on the generator's own device."""
    return lambda shape: torch.rand(shape, generator=generator, device=generator.device)


def window_draw(seed: int, window_B: Tensor) -> Draw:
    """Draws that depend on the seed and the window alone: not on the batch, its order, the device or earlier calls."""
    key_B = _mix(window_B.long() * _STEP + _mix(torch.full_like(window_B, seed, dtype=torch.int64)))
    used = 0

    def draw(shape: tuple[int, ...]) -> Tensor:
        nonlocal used
        count = prod(shape[1:])
        counter = torch.arange(used + 1, used + count + 1, device=key_B.device)
        used += count
        bits = _mix(key_B[:, None] + counter * _STEP)
        return ((bits >> 24) & 0xFFFFFF).float().mul(2.0**-24).view(shape)

    return draw


def _mix(value: Tensor) -> Tensor:
    """Spread every input bit over all 64 output bits; integer products wrap around on every device."""
    value = (value ^ ((value >> 30) & 0x3FFFFFFFF)) * _FIRST
    value = (value ^ ((value >> 27) & 0x1FFFFFFFFF)) * _SECOND
    return value ^ ((value >> 31) & 0x1FFFFFFFF)
