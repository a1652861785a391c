"""Computing on present tokens only: the tokens of all rows lie one after another, absent ones are not there at all.

A third to a half of a training batch's tokens are absent, so this saves as much of the work. Shapes are fixed by a
capacity chosen beforehand, which lets the step be captured in a graph; places beyond the last token hold copies of
token 0 that form short sequences of their own and are read by nobody.

R rows, C channels, N capacity in tokens, S sequences (the R rows, then the filling), D width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

FILLING = 16
ALIGNED = 32  # matrix units want widths that are multiples of their tiles


@dataclass(frozen=True, slots=True)
class Sequences:
    """Which of the packed tokens belong together: sequence s owns `length_S[s]` tokens from `first_S[s]` on."""

    first_S: Tensor
    length_S: Tensor
    longest: int


@dataclass(frozen=True, slots=True)
class Packing:
    """Where each present token of a batch of rows lies."""

    token_N: Tensor
    rows: int
    channels: int
    sequences: Sequences


def pack(m_RC: Tensor, capacity: int) -> Packing:
    """Lay out the present tokens of every row; those beyond the capacity are cut off, which `lost_tokens` counts."""
    rows, channels = m_RC.shape
    m_RC = m_RC & (m_RC.flatten().cumsum(0).view_as(m_RC) <= capacity)
    present = m_RC.flatten()
    slot = torch.where(present, present.cumsum(0) - 1, capacity)
    every = torch.arange(rows * channels, device=m_RC.device)
    token_N = every.new_zeros(capacity + 1).scatter_(0, slot, every)[:capacity]
    length_R = m_RC.sum(1, dtype=torch.int32)
    last_R = length_R.cumsum(0, dtype=torch.int32)
    filling = last_R[-1] + FILLING * torch.arange(capacity // FILLING + 1, dtype=torch.int32, device=m_RC.device)
    first_S = torch.cat([last_R - length_R, filling])
    length_S = torch.cat([length_R, (capacity - filling).clamp(0, FILLING).to(torch.int32)])
    return Packing(token_N, rows, channels, Sequences(first_S, length_S, max(channels, FILLING)))


def lost_tokens(m_RC: Tensor, capacity: int) -> Tensor:
    """How many present tokens do not fit; must stay 0, and is checked once an epoch."""
    return (m_RC.sum() - capacity).clamp(min=0)


def equal_sequences(count: int, length: int, device: torch.device) -> Sequences:
    """`count` sequences of the same length, one after another."""
    first_S = torch.arange(0, count * length, length, dtype=torch.int32, device=device)
    return Sequences(first_S, torch.full_like(first_S, length), length)


def mean_of_rows(x_ND: Tensor, packing: Packing) -> Tensor:
    """The mean over the present tokens of every row; zero for a row without any, and the filling weighs nothing."""
    row_N, length_R = packing.token_N // packing.channels, packing.sequences.length_S[: packing.rows]
    inside_N = torch.arange(len(row_N), device=row_N.device) < length_R.sum()
    weight_N = inside_N / length_R.index_select(0, row_N).clamp(min=1)
    mean_RD = x_ND.new_zeros(packing.rows, x_ND.shape[-1])
    return mean_RD.index_add(0, row_N, x_ND * weight_N.unsqueeze(-1).to(x_ND.dtype))


def rows_of_table(table_CD: Tensor, index_N: Tensor) -> Tensor:
    """Rows of a small table. Its gradient is a product with one-hot rows; that of a gather is slow on GPUs."""
    rows_ND: Tensor = _RowsOfTable.apply(table_CD, index_N)  # type: ignore[no-untyped-call]
    return rows_ND


class _RowsOfTable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table_CD: Tensor, index_N: Tensor) -> Tensor:
        ctx.save_for_backward(index_N)
        ctx.rows = len(table_CD)
        return table_CD.index_select(0, index_N)

    @staticmethod
    def backward(ctx: Any, gradient_ND: Tensor) -> tuple[Tensor, None]:
        (index_N,) = ctx.saved_tensors
        padded = -(-ctx.rows // ALIGNED) * ALIGNED
        one_hot_NP = functional.one_hot(index_N, padded).to(gradient_ND.dtype)
        return (one_hot_NP.T @ gradient_ND)[: ctx.rows], None
