"""Many sampled paths under one plan: every planned row is asked for, and what the paths share is computed once.

Each row has a plan of its own that waits before it begins (see `waiting`), the same for all paths. So the steps of a
plan are keys and values that all windows read, and the tokens of a window are keys and values that all rows read.
E members, B windows, R rows, K context rows, T planned steps, C sensors, N tokens, D width, J heads, I width of a head.
"""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor

from crossfeed.distribution import Mixture
from crossfeed.model.sensors.commands import PlanFeatures
from crossfeed.model.sensors.members import member_norm
from crossfeed.model.sensors.network import AskedHorizons, ReadBlock, SensorNetwork, SensorWindow, commands_near


def decode_paths(
    network: SensorNetwork, window: SensorWindow, past_1KA: Tensor, features: PlanFeatures, asked: AskedHorizons
) -> Mixture:
    """What the members say (E, B, R, C) of the rows that follow each window; `features` are of the R delayed plans."""
    batch, sensors = window.present_BC.shape
    token_EBND = network.encode(window, past_1KA.expand(batch, -1, -1))
    rows, steps = features.step_BTF.shape[:2]
    step_ERTD = network.step(network.for_members(features.step_BTF)) + network.step_place[:, None, :steps]
    assert asked.slot_H is not None
    row_R = torch.arange(rows, device=asked.step_H.device)
    near_RF = commands_near(features.step_BTF, asked.step_H)[row_R, row_R]  # every row has a plan of its own
    start_ERD = network.horizon.index_select(1, asked.slot_H) + network.near(network.for_members(near_RF))
    query_EBRCD = token_EBND[:, :, None, :sensors] + start_ERD[:, None, :, None]
    known_B11N = network.present(window)[:, None, None]
    planned_RT = torch.arange(steps, device=asked.step_H.device) <= asked.step_H.unsqueeze(1)
    for layer in cast(Iterable[ReadBlock], network.decoder):
        query_EBRCD = _read(layer, query_EBRCD, token_EBND, known_B11N, step_ERTD, planned_RT[:, None, None])
    effort_RSG, context = features.effort_BSG, network.config.context
    # The commands until now are those of every row; after them stands, for each row, what it is driven by itself.
    effort_1SG = torch.cat([effort_RSG[:1, :context], effort_RSG[row_R, context + asked.step_H].unsqueeze(0)], 1)
    mixture: Mixture = network.head(
        member_norm(query_EBRCD), window.centre_BC, window.last_BC, effort_1SG, row_R, window.channels
    )
    return mixture


def _read(
    layer: ReadBlock,
    query_EBRCD: Tensor,
    token_EBND: Tensor,
    known_B11N: Tensor,
    step_ERTD: Tensor,
    planned_R11T: Tensor,
) -> Tensor:
    """A block of the decoder: attention to the own tokens and to the steps of the own row, with one softmax."""
    attention, (members, batch, rows, sensors, width) = layer.attention, query_EBRCD.shape
    heads, each = attention.heads, width // attention.heads
    query = attention.query(member_norm(query_EBRCD)).unflatten(-1, (heads, each)) * each**-0.5
    key_EBJIN, value_EBJNI = _keys_and_values(attention.key_value(token_EBND), heads)
    key_ERJIT, value_ERJTI = _keys_and_values(attention.key_value(step_ERTD), heads)
    to_tokens = query.permute(0, 1, 4, 2, 3, 5).reshape(members, batch, heads, rows * sensors, each) @ key_EBJIN
    to_steps = query.permute(0, 2, 4, 1, 3, 5).reshape(members, rows, heads, batch * sensors, each) @ key_ERJIT
    lowest = torch.finfo(query.dtype).min
    to_tokens = to_tokens.masked_fill_(~known_B11N, lowest).view(members, batch, heads, rows, sensors, -1)
    to_steps = to_steps.masked_fill_(~planned_R11T, lowest).view(members, rows, heads, batch, sensors, -1)
    weight = torch.cat([to_tokens, to_steps.permute(0, 3, 2, 1, 4, 5)], -1).softmax(-1)
    own, planned = torch.split(weight, [to_tokens.shape[-1], to_steps.shape[-1]], -1)
    from_tokens = own.reshape(members, batch, heads, rows * sensors, -1) @ value_EBJNI
    from_steps = planned.permute(0, 3, 2, 1, 4, 5).reshape(members, rows, heads, batch * sensors, -1) @ value_ERJTI
    read = from_tokens.view(members, batch, heads, rows, sensors, each).permute(0, 1, 3, 4, 2, 5)
    read = read + from_steps.view(members, rows, heads, batch, sensors, each).permute(0, 3, 1, 4, 2, 5)
    query_EBRCD = query_EBRCD + attention.out(read.reshape(members, batch, rows, sensors, width))
    forward_EBRCD: Tensor = layer.feed_forward(member_norm(query_EBRCD))
    return query_EBRCD + forward_EBRCD


def _keys_and_values(key_value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """The two halves by heads, keys turned for the product with queries."""
    key, value = torch.unflatten(key_value, -1, (2, heads, -1)).unbind(3)
    return key.permute(0, 1, 3, 4, 2), value.transpose(2, 3)
