"""The attention kernels as differentiable functions.

Imported only where Triton and an NVIDIA GPU are at hand; each function has a plain reference that it must match.

N tokens, S sequences, R rows, D width, B windows, L queries, K keys.
"""

import torch
import triton
from torch import Tensor

from crossfeed.model.fast import kernels
from crossfeed.model.parts.packing import FILLING, Packing, Sequences


def attend_packed(qkv_N3D: Tensor, sequences: Sequences, heads: int, drop: float, seed: Tensor) -> Tensor:
    """Attention inside each packed sequence; `attention.attend_packed` is its reference."""
    first_S, length_S = sequences.first_S, sequences.length_S
    return _packed_attention(qkv_N3D, first_S, length_S, seed, heads, sequences.longest, drop)


def attend_between(q_BLD: Tensor, kv_BK2D: Tensor, allowed_LK: Tensor, heads: int, drop: float, seed: Tensor) -> Tensor:
    """Attention of a few queries over a few keys, one mask for all windows; `attention.attend` is its reference."""
    return _attention_between(q_BLD, kv_BK2D, allowed_LK, seed, heads, drop)


def mean_of_rows(x_ND: Tensor, packing: Packing) -> Tensor:
    """The mean over the present tokens of every row; `packing.mean_of_rows` is its reference."""
    sequences = packing.sequences
    return _packed_mean(x_ND, sequences.first_S, sequences.length_S, packing.rows, sequences.longest)


@torch.library.custom_op("crossfeed::packed_attention", mutates_args=())
def _packed_attention(
    qkv_N3D: Tensor, first_S: Tensor, length_S: Tensor, seed: Tensor, heads: int, longest: int, drop: float
) -> Tensor:
    out_ND = qkv_N3D.new_empty(qkv_N3D.shape[0], qkv_N3D.shape[2])
    grid, arguments, warps = _launch_packed(qkv_N3D, first_S, heads, longest, drop)
    kernels.forward[grid](qkv_N3D, out_ND, first_S, length_S, seed, *arguments, num_warps=warps)
    return out_ND


@torch.library.custom_op("crossfeed::packed_attention_backward", mutates_args=())
def _packed_attention_backward(
    qkv_N3D: Tensor, dout_ND: Tensor, first_S: Tensor, length_S: Tensor, seed: Tensor,
    heads: int, longest: int, drop: float,
) -> Tensor:  # fmt: skip
    dqkv_N3D = torch.empty_like(qkv_N3D)
    grid, arguments, warps = _launch_packed(qkv_N3D, first_S, heads, longest, drop)
    dout_ND = dout_ND.contiguous()
    kernels.backward[grid](qkv_N3D, dout_ND, dqkv_N3D, first_S, length_S, seed, *arguments, num_warps=warps)
    return dqkv_N3D


@torch.library.custom_op("crossfeed::attention_between", mutates_args=())
def _attention_between(
    q_BLD: Tensor, kv_BK2D: Tensor, allowed_LK: Tensor, seed: Tensor, heads: int, drop: float
) -> Tensor:
    out_BLD = torch.empty_like(q_BLD)
    grid, arguments, warps = _launch_between(q_BLD, kv_BK2D, heads, drop)
    kernels.forward_between[grid](q_BLD, kv_BK2D, out_BLD, allowed_LK, seed, *arguments, num_warps=warps)
    return out_BLD


@torch.library.custom_op("crossfeed::attention_between_backward", mutates_args=())
def _attention_between_backward(
    q_BLD: Tensor, kv_BK2D: Tensor, dout_BLD: Tensor, allowed_LK: Tensor, seed: Tensor, heads: int, drop: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    dq_BLD, dkv_BK2D = torch.empty_like(q_BLD), torch.empty_like(kv_BK2D)
    grid, arguments, warps = _launch_between(q_BLD, kv_BK2D, heads, drop)
    tensors = (q_BLD, kv_BK2D, dout_BLD.contiguous(), dq_BLD, dkv_BK2D, allowed_LK, seed)
    kernels.backward_between[grid](*tensors, *arguments, num_warps=warps)
    return dq_BLD, dkv_BK2D


@torch.library.custom_op("crossfeed::packed_mean", mutates_args=())
def _packed_mean(x_ND: Tensor, first_S: Tensor, length_S: Tensor, rows: int, longest: int) -> Tensor:
    mean_RD = x_ND.new_empty(rows, x_ND.shape[1])
    tiles = _mean_tiles(x_ND.shape[1], longest)
    kernels.mean[(rows,)](x_ND.contiguous(), mean_RD, first_S, length_S, *tiles, num_warps=1)
    return mean_RD


@torch.library.custom_op("crossfeed::packed_mean_backward", mutates_args=())
def _packed_mean_backward(dmean_RD: Tensor, first_S: Tensor, length_S: Tensor, tokens: int, longest: int) -> Tensor:
    (rows, width), dmean_RD = dmean_RD.shape, dmean_RD.contiguous()
    dx_ND = dmean_RD.new_empty(tokens, width)
    tiles = _mean_tiles(width, longest)
    kernels.mean_backward[(len(first_S),)](dmean_RD, dx_ND, first_S, length_S, rows, *tiles, num_warps=1)
    return dx_ND


def _mean_tiles(width: int, longest: int) -> tuple[int, int, int]:
    return width, triton.next_power_of_2(width), _tile(longest)


def _launch_packed(qkv_N3D: Tensor, first_S: Tensor, heads: int, longest: int, drop: float):
    """Grid, the arguments both directions share, and warps in a program."""
    width, widest = qkv_N3D.shape[2] // heads, _tile(longest)
    shapes = (heads, width, _tile(width), _queries(widest), widest, FILLING, drop > 0.0)
    return (len(first_S) * heads,), (*_numbers(width, drop), *shapes), _warps(widest)


def _launch_between(q_BLD: Tensor, kv_BK2D: Tensor, heads: int, drop: float):
    (windows, queries, width), keys = q_BLD.shape, kv_BK2D.shape[1]
    most, tile = _tile(queries), _tile(keys)
    tiles = (_tile(width // heads), most, min(most, _queries(tile)), tile, max(most, tile))
    arguments = (queries, keys, *_numbers(width // heads, drop), heads, width // heads, *tiles, drop > 0.0)
    return (windows * heads,), arguments, _warps(tile)


def _numbers(width: int, drop: float) -> tuple[float, int, float]:
    return width**-0.5, int(drop * 2**32), 1.0 / (1.0 - drop)


def _tile(length: int) -> int:
    return max(FILLING, triton.next_power_of_2(length))


def _queries(keys: int) -> int:
    """Queries at once: as many as leave the scores of all keys in registers."""
    return keys if keys <= 32 else 16


def _warps(keys: int) -> int:
    """Warps of a program, so that none of its arrays spills into memory (as the assembler reports it)."""
    return 1 if keys <= 32 else 4 if keys <= 64 else 8 if keys <= 256 else 16


def _keep_packed(ctx, inputs, output):
    qkv_N3D, first_S, length_S, seed, *ctx.settings = inputs
    ctx.save_for_backward(qkv_N3D, first_S, length_S, seed)


def _packed_gradient(ctx, dout_ND):
    qkv_N3D, first_S, length_S, seed = ctx.saved_tensors
    gradient = _packed_attention_backward(qkv_N3D, dout_ND, first_S, length_S, seed, *ctx.settings)
    return gradient, *[None] * 6


def _keep_between(ctx, inputs, output):
    *tensors, ctx.heads, ctx.drop = inputs
    ctx.save_for_backward(*tensors)


def _between_gradient(ctx, dout_BLD):
    q_BLD, kv_BK2D, allowed_LK, seed = ctx.saved_tensors
    settings = (ctx.heads, ctx.drop)
    return *_attention_between_backward(q_BLD, kv_BK2D, dout_BLD, allowed_LK, seed, *settings), *[None] * 4


def _keep_mean(ctx, inputs, output):
    x_ND, first_S, length_S, _, ctx.longest = inputs
    ctx.save_for_backward(first_S, length_S)
    ctx.tokens = len(x_ND)


def _mean_gradient(ctx, dmean_RD):
    gradient = _packed_mean_backward(dmean_RD, *ctx.saved_tensors, ctx.tokens, ctx.longest)
    return gradient, *[None] * 4


_packed_attention.register_autograd(_packed_gradient, setup_context=_keep_packed)
_attention_between.register_autograd(_between_gradient, setup_context=_keep_between)
_packed_mean.register_autograd(_mean_gradient, setup_context=_keep_mean)
