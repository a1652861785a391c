"""Triton kernels for short packed sequences: a whole sequence stays on the chip, forward and backward.

Imported only where Triton and an NVIDIA GPU are at hand; each kernel has a plain reference that it must match. One
program handles one head of one sequence, so scores and weights never touch device memory. Sequences of up to 16 tokens
take a 16-wide tile, longer ones the next power of two. Dropout draws from an integer hash of (seed, place), so the
backward pass draws the same numbers again instead of storing them.

N tokens, S sequences, D width.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from crossfeed.model.packing import FILLING, Packing, Sequences


@triton.jit
def _mix(h):
    """A bijective scrambling of 32 bits; `dropout._mix` does the same."""
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    return h ^ (h >> 16)


@triton.jit
def _weights(
    q, k, length, key, pair, scale, threshold, kept, TILE: tl.constexpr, WIDEST: tl.constexpr, DROP: tl.constexpr
):
    """Softmax over the sequence's own keys, and the dropout factor of every entry."""
    place = tl.arange(0, TILE)
    visible = (place[None, :] < length) & (place[:, None] < length)
    scores = tl.where(visible, tl.dot(q, tl.trans(k), input_precision="ieee") * scale, -1.0e30)
    powers = tl.where(visible, tl.exp(scores - tl.max(scores, 1)[:, None]), 0.0)
    totals = tl.sum(powers, 1)
    weights = powers / tl.where(totals > 0.0, totals, 1.0)[:, None]
    factor = tl.full((TILE, TILE), 1.0, tl.float32)
    if DROP:
        counter = (pair * WIDEST + place[:, None]) * WIDEST + place[None, :]
        bits = _mix((counter.to(tl.uint32) ^ key) * 0x9E3779B1)
        factor = tl.where(bits >= threshold, kept, 0.0)
    return weights, factor


@triton.jit
def _forward_tile(
    qkv_ptr, out_ptr, first, length, key, pair, scale, threshold, kept,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    TILE: tl.constexpr, WIDEST: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    place, column, head = tl.arange(0, TILE), tl.arange(0, BLOCK), pair % HEADS
    inside = (place < length)[:, None] & (column < WIDTH)[None, :]
    token = (first + place).to(tl.int64)[:, None]
    q_ptr = qkv_ptr + token * (3 * HEADS * WIDTH) + head * WIDTH + column[None, :]
    q = tl.load(q_ptr, mask=inside, other=0.0)
    k = tl.load(q_ptr + HEADS * WIDTH, mask=inside, other=0.0)
    v = tl.load(q_ptr + 2 * HEADS * WIDTH, mask=inside, other=0.0)
    weights, factor = _weights(q, k, length, key, pair, scale, threshold, kept, TILE, WIDEST, DROP)
    out = tl.dot((weights * factor).to(v.dtype), v, input_precision="ieee")
    tl.store(out_ptr + token * (HEADS * WIDTH) + head * WIDTH + column[None, :], out.to(v.dtype), mask=inside)


@triton.jit
def _backward_tile(
    qkv_ptr, dout_ptr, dqkv_ptr, first, length, key, pair, scale, threshold, kept,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    TILE: tl.constexpr, WIDEST: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    place, column, head = tl.arange(0, TILE), tl.arange(0, BLOCK), pair % HEADS
    inside = (place < length)[:, None] & (column < WIDTH)[None, :]
    token = (first + place).to(tl.int64)[:, None]
    offset = token * (3 * HEADS * WIDTH) + head * WIDTH + column[None, :]
    q = tl.load(qkv_ptr + offset, mask=inside, other=0.0)
    k = tl.load(qkv_ptr + offset + HEADS * WIDTH, mask=inside, other=0.0)
    v = tl.load(qkv_ptr + offset + 2 * HEADS * WIDTH, mask=inside, other=0.0)
    dout_ptr += token * (HEADS * WIDTH) + head * WIDTH + column[None, :]
    dout = tl.load(dout_ptr, mask=inside, other=0.0)
    weights, factor = _weights(q, k, length, key, pair, scale, threshold, kept, TILE, WIDEST, DROP)
    dv = tl.dot(tl.trans((weights * factor).to(v.dtype)), dout, input_precision="ieee")
    dweights = tl.dot(dout, tl.trans(v), input_precision="ieee") * factor
    dscores = (weights * (dweights - tl.sum(weights * dweights, 1)[:, None]) * scale).to(v.dtype)
    dq = tl.dot(dscores, k, input_precision="ieee")
    dk = tl.dot(tl.trans(dscores), q, input_precision="ieee")
    tl.store(dqkv_ptr + offset, dq.to(v.dtype), mask=inside)
    tl.store(dqkv_ptr + offset + HEADS * WIDTH, dk.to(v.dtype), mask=inside)
    tl.store(dqkv_ptr + offset + 2 * HEADS * WIDTH, dv.to(v.dtype), mask=inside)


@triton.jit
def _forward(
    qkv_ptr, out_ptr, first_ptr, length_ptr, seed_ptr, salt, scale, threshold, kept,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    WIDEST: tl.constexpr, SMALL: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0)
    length = tl.load(length_ptr + pair // HEADS)
    first = tl.load(first_ptr + pair // HEADS)
    key = _mix((tl.load(seed_ptr) * 1000003 + salt).to(tl.uint32))
    if length > 0:
        if length <= SMALL:
            _forward_tile(
                qkv_ptr, out_ptr, first, length, key, pair, scale, threshold, kept,
                HEADS, WIDTH, BLOCK, SMALL, WIDEST, DROP,
            )  # fmt: skip
        elif SMALL < WIDEST:
            _forward_tile(
                qkv_ptr, out_ptr, first, length, key, pair, scale, threshold, kept,
                HEADS, WIDTH, BLOCK, WIDEST, WIDEST, DROP,
            )  # fmt: skip


@triton.jit
def _backward(
    qkv_ptr, dout_ptr, dqkv_ptr, first_ptr, length_ptr, seed_ptr, salt, scale, threshold, kept,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    WIDEST: tl.constexpr, SMALL: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0)
    length = tl.load(length_ptr + pair // HEADS)
    first = tl.load(first_ptr + pair // HEADS)
    key = _mix((tl.load(seed_ptr) * 1000003 + salt).to(tl.uint32))
    if length > 0:
        if length <= SMALL:
            _backward_tile(
                qkv_ptr, dout_ptr, dqkv_ptr, first, length, key, pair, scale, threshold, kept,
                HEADS, WIDTH, BLOCK, SMALL, WIDEST, DROP,
            )  # fmt: skip
        elif SMALL < WIDEST:
            _backward_tile(
                qkv_ptr, dout_ptr, dqkv_ptr, first, length, key, pair, scale, threshold, kept,
                HEADS, WIDTH, BLOCK, WIDEST, WIDEST, DROP,
            )  # fmt: skip


@triton.jit
def _mean(x_ptr, out_ptr, first_ptr, length_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0)
    first, length = tl.load(first_ptr + row), tl.load(length_ptr + row)
    place, column = tl.arange(0, TILE), tl.arange(0, BLOCK)
    inside = (place < length)[:, None] & (column < WIDTH)[None, :]
    x = tl.load(x_ptr + (first + place).to(tl.int64)[:, None] * WIDTH + column[None, :], mask=inside, other=0.0)
    mean = tl.sum(x.to(tl.float32), 0) / tl.maximum(length, 1).to(tl.float32)
    tl.store(out_ptr + row.to(tl.int64) * WIDTH + column, mean.to(x.dtype), mask=column < WIDTH)


@torch.library.custom_op("crossfeed::packed_attention", mutates_args=())
def _packed_attention(
    qkv_N3D: Tensor, first_S: Tensor, length_S: Tensor, seed: Tensor, salt: int, heads: int, longest: int, drop: float
) -> Tensor:
    out_ND = qkv_N3D.new_empty(qkv_N3D.shape[0], qkv_N3D.shape[2])
    grid, settings = _launch(qkv_N3D, first_S, heads, longest, drop)
    _forward[grid](qkv_N3D, out_ND, first_S, length_S, seed, salt, *settings, num_warps=1)
    return out_ND


@torch.library.custom_op("crossfeed::packed_attention_backward", mutates_args=())
def _packed_attention_backward(
    qkv_N3D: Tensor, dout_ND: Tensor, first_S: Tensor, length_S: Tensor, seed: Tensor,
    salt: int, heads: int, longest: int, drop: float,
) -> Tensor:  # fmt: skip
    dqkv_N3D = torch.empty_like(qkv_N3D)
    grid, settings = _launch(qkv_N3D, first_S, heads, longest, drop)
    _backward[grid](qkv_N3D, dout_ND.contiguous(), dqkv_N3D, first_S, length_S, seed, salt, *settings, num_warps=1)
    return dqkv_N3D


def _launch(qkv_N3D: Tensor, first_S: Tensor, heads: int, longest: int, drop: float):
    """Grid and the arguments both directions share."""
    width, widest = qkv_N3D.shape[2] // heads, max(FILLING, triton.next_power_of_2(longest))
    numbers = (width**-0.5, int(drop * 2**32), 1.0 / (1.0 - drop))
    shapes = (heads, width, max(FILLING, triton.next_power_of_2(width)), widest, FILLING, drop > 0.0)
    return (len(first_S) * heads,), (*numbers, *shapes)


@torch.library.custom_op("crossfeed::packed_mean", mutates_args=())
def _packed_mean(
    x_ND: Tensor, first_S: Tensor, length_S: Tensor, row_N: Tensor, weight_N: Tensor, rows: int, longest: int
) -> Tensor:
    mean_RD = x_ND.new_empty(rows, x_ND.shape[1])
    width = x_ND.shape[1]
    tiles = (width, triton.next_power_of_2(width), max(FILLING, triton.next_power_of_2(longest)))
    _mean[(rows,)](x_ND.contiguous(), mean_RD, first_S, length_S, *tiles, num_warps=4)
    return mean_RD


@_packed_attention.register_fake
def _(qkv_N3D, first_S, length_S, seed, salt, heads, longest, drop):
    return qkv_N3D.new_empty(qkv_N3D.shape[0], qkv_N3D.shape[2])


@_packed_attention_backward.register_fake
def _(qkv_N3D, dout_ND, first_S, length_S, seed, salt, heads, longest, drop):
    return torch.empty_like(qkv_N3D)


@_packed_mean.register_fake
def _(x_ND, first_S, length_S, row_N, weight_N, rows, longest):
    return x_ND.new_empty(rows, x_ND.shape[1])


def _keep_attention(ctx, inputs, output):
    qkv_N3D, first_S, length_S, seed, *ctx.settings = inputs
    ctx.save_for_backward(qkv_N3D, first_S, length_S, seed)


def _attention_gradient(ctx, dout_ND):
    qkv_N3D, first_S, length_S, seed = ctx.saved_tensors
    gradient = _packed_attention_backward(qkv_N3D, dout_ND, first_S, length_S, seed, *ctx.settings)
    return gradient, *[None] * 7


def _keep_mean(ctx, inputs, output):
    ctx.save_for_backward(inputs[3], inputs[4])


def _mean_gradient(ctx, dmean_RD):
    row_N, weight_N = ctx.saved_tensors
    return dmean_RD.index_select(0, row_N) * weight_N.unsqueeze(-1).to(dmean_RD.dtype), *[None] * 6


_packed_attention.register_autograd(_attention_gradient, setup_context=_keep_attention)
_packed_mean.register_autograd(_mean_gradient, setup_context=_keep_mean)


def attend_packed(qkv_N3D: Tensor, sequences: Sequences, heads: int, drop: float, seed: Tensor, salt: int) -> Tensor:
    """Attention inside each packed sequence; `attention.attend_packed` is its reference."""
    first_S, length_S = sequences.first_S, sequences.length_S
    return _packed_attention(qkv_N3D, first_S, length_S, seed, salt, heads, sequences.longest, drop)


def mean_of_rows(x_ND: Tensor, packing: Packing) -> Tensor:
    """The mean over the present tokens of every row; `packing.mean_of_rows` is its reference."""
    where = (packing.sequences.first_S, packing.sequences.length_S, packing.row_N, packing.weight_N)
    return _packed_mean(x_ND, *where, packing.rows, packing.sequences.longest)
