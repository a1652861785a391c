"""Many sampled paths under one plan: every planned row is asked for, and what the paths share is computed once.

Each row has a plan of its own that waits before it begins (see `waiting`), the same for all paths. So the steps of a
plan are keys and values that all windows read, and the tokens of a window are keys and values that all rows read.
B windows, R rows, K context rows, T planned steps, C sensors, N tokens, D width, J heads, E width of a head.
"""

import torch
from torch import Tensor

from crossfeed.distribution import Mixture
from crossfeed.model.sensors.commands import Meaning
from crossfeed.model.sensors.network import AskedHorizons, ReadBlock, SensorNetwork
from crossfeed.model.sensors.window import SensorWindow


def follow(
    network: SensorNetwork, window: SensorWindow, past_1KA: Tensor, meaning: Meaning, asked: AskedHorizons
) -> Mixture:
    """What one network says (B, R, C) of the rows that follow each window; `meaning` is of the R plans that wait."""
    batch, sensors = window.present_BC.shape
    token_BND = network.encode(window, past_1KA.expand(batch, -1, -1))
    rows, steps = meaning.step_BTF.shape[:2]
    step_RTD = network.step(meaning.step_BTF) + network.step_place[:steps]
    start_RD = network.starts(meaning.step_BTF, asked)
    query_BRCD = token_BND[:, None, :sensors] + start_RD[:, None]
    known_B11N = network.present(window)[:, None, None]
    planned_RT = torch.arange(steps, device=asked.step_H.device) <= asked.step_H.unsqueeze(1)
    for layer in network.decoder_layers:
        query_BRCD = _read(layer, query_BRCD, token_BND, known_B11N, step_RTD, planned_RT[:, None, None])
    query_BRCD = network.norm(query_BRCD)
    effort_RSG, context = meaning.effort_BSG, network.config.context
    row_R = torch.arange(rows, device=asked.step_H.device)
    # The commands until now are those of every row; after them stands, for each row, what it is driven by itself.
    effort_1SG = torch.cat([effort_RSG[:1, :context], effort_RSG[row_R, context + asked.step_H].unsqueeze(0)], 1)
    said: Mixture = network.head(query_BRCD, window.centre_BC, window.last_BC, effort_1SG, row_R, window.channels)
    return said


def _read(
    layer: ReadBlock, query_BRCD: Tensor, token_BND: Tensor, known_B11N: Tensor, step_RTD: Tensor, planned_R11T: Tensor
) -> Tensor:
    """A block of the decoder: attention to the own tokens and to the steps of the own row, with one softmax."""
    attention, (batch, rows, sensors, width) = layer.attention, query_BRCD.shape
    heads, each = attention.heads, width // attention.heads
    query = attention.query(layer.attention_norm(query_BRCD)).view(batch, rows, sensors, heads, each) * each**-0.5
    key_BJEN, value_BJNE = _keys_and_values(attention.key_value(token_BND), heads)
    key_RJET, value_RJTE = _keys_and_values(attention.key_value(step_RTD), heads)
    to_tokens = query.permute(0, 3, 1, 2, 4).reshape(batch, heads, rows * sensors, each) @ key_BJEN
    to_steps = query.permute(1, 3, 0, 2, 4).reshape(rows, heads, batch * sensors, each) @ key_RJET
    lowest = torch.finfo(query.dtype).min
    to_tokens = to_tokens.masked_fill_(~known_B11N, lowest).view(batch, heads, rows, sensors, -1)
    to_steps = to_steps.masked_fill_(~planned_R11T, lowest).view(rows, heads, batch, sensors, -1)
    weight = torch.cat([to_tokens, to_steps.permute(2, 1, 0, 3, 4)], -1).softmax(-1)
    own, planned = torch.split(weight, [to_tokens.shape[-1], to_steps.shape[-1]], -1)
    from_tokens = own.reshape(batch, heads, rows * sensors, -1) @ value_BJNE
    from_steps = planned.permute(2, 1, 0, 3, 4).reshape(rows, heads, batch * sensors, -1) @ value_RJTE
    read = from_tokens.view(batch, heads, rows, sensors, each).permute(0, 2, 3, 1, 4)
    read = read + from_steps.view(rows, heads, batch, sensors, each).permute(2, 0, 3, 1, 4)
    query_BRCD = query_BRCD + attention.out(read.reshape(batch, rows, sensors, width))
    thought_BRCD: Tensor = layer.feed_forward(layer.feed_forward_norm(query_BRCD))
    return query_BRCD + thought_BRCD


def _keys_and_values(key_value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """The two halves by heads, keys turned for the product with queries."""
    key, value = torch.unflatten(key_value, -1, (2, heads, -1)).unbind(2)
    return key.permute(0, 2, 3, 1), value.transpose(1, 2)
