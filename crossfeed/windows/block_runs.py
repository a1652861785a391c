"""Runs of hidden steps, drawn for a whole batch on its device, with fixed shapes.

B batch, K context, C sensors, R runs, E entries of a window.
"""

import math

import torch
from torch import Tensor

from crossfeed.windows.draws import Draw

SHORTEST_RUN, LONGEST_RUN = 2, 12


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
