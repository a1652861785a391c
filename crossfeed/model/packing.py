"""Computing on present tokens only: the tokens of all rows lie one after another, absent ones are not there at all.

A third to a half of a training batch's tokens are absent, so this saves as much of the work. Shapes are fixed by a
capacity chosen beforehand, which lets the step be captured in a graph; places beyond the last token hold copies of
token 0 that form short sequences of their own and are read by nobody.

R rows, C channels, N capacity in tokens, S sequences (the R rows, then the filling), D width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from crossfeed.model.attention import attend

FILLING = 16


@dataclass(frozen=True, slots=True)
class Packing:
    """Where each present token of a batch of rows lies."""

    token_N: Tensor
    row_N: Tensor
    weight_N: Tensor
    first_S: Tensor
    length_S: Tensor
    rows: int
    longest: int


def pack(m_RC: Tensor, capacity: int) -> Packing:
    """Lay out the present tokens of every row; tokens beyond the capacity are cut off, see `lost_tokens`."""
    rows, channels = m_RC.shape
    m_RC = m_RC & (m_RC.flatten().cumsum(0).view_as(m_RC) <= capacity)
    present = m_RC.flatten()
    place = torch.where(present, present.cumsum(0) - 1, capacity)
    every = torch.arange(rows * channels, device=m_RC.device)
    token_N = every.new_zeros(capacity + 1).scatter_(0, place, every)[:capacity]
    length_R = m_RC.sum(1, dtype=torch.int32)
    last_R = length_R.cumsum(0, dtype=torch.int32)
    filling = last_R[-1] + FILLING * torch.arange(capacity // FILLING + 1, dtype=torch.int32, device=m_RC.device)
    filling_length = (capacity - filling).clamp(0, FILLING)
    row_N = token_N // channels
    inside_N = torch.arange(capacity, device=m_RC.device) < last_R[-1]
    return Packing(
        token_N=token_N,
        row_N=row_N,
        weight_N=inside_N / length_R.index_select(0, row_N).clamp(min=1),
        first_S=torch.cat([last_R - length_R, filling]),
        length_S=torch.cat([length_R, filling_length.to(torch.int32)]),
        rows=rows,
        longest=max(channels, FILLING),
    )


def lost_tokens(m_RC: Tensor, capacity: int) -> Tensor:
    """How many present tokens do not fit; must stay 0, and is checked once an epoch."""
    return (m_RC.sum() - capacity).clamp(min=0)


def attend_packed(qkv_N3D: Tensor, packing: Packing, heads: int, dropout: float) -> Tensor:
    """Attention inside each packed sequence by way of a padded array: the reference that the GPU kernel must match."""
    sequences, longest = len(packing.length_S), packing.longest
    step_L = torch.arange(longest, device=qkv_N3D.device)
    inside_SL = step_L < packing.length_S[:, None]
    place_SL = torch.where(inside_SL, packing.first_S[:, None] + step_L, len(qkv_N3D))
    padded = functional.pad(qkv_N3D, (0, 0, 0, 0, 0, 1))[place_SL.long()]
    query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in padded.unbind(2))
    out_SLD = attend(query, key, value, inside_SL[:, None, None, :], dropout).transpose(1, 2).flatten(2)
    out_ND = qkv_N3D.new_zeros(len(qkv_N3D) + 1, out_SLD.shape[-1])
    return out_ND.index_put((place_SL.long().flatten(),), out_SLD.reshape(sequences * longest, -1))[:-1]


def mean_of_rows(x_ND: Tensor, packing: Packing) -> Tensor:
    """The mean over the present tokens of every row; zero for a row without any."""
    mean_RD = x_ND.new_zeros(packing.rows, x_ND.shape[-1])
    return mean_RD.index_add(0, packing.row_N, x_ND * packing.weight_N.unsqueeze(-1).to(x_ND.dtype))
