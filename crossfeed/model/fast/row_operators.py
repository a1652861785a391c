"""The row kernels as differentiable functions, and matrix products that go with them.

Imported only where Triton and an NVIDIA GPU are at hand; a test compares whole models that run by them with plain ones.
Weights come in two forms: the parameter, which gets the gradient, and its copy in the type of the products.

R rows, D width, E width of a product, P programs.
"""

from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd import Function

from crossfeed.model.fast import row_kernels as kernels

TILE = 2048  # entries a program holds at once
WARPS = 8  # of a program
# A backward pass walks over many tiles: while one is worked on, the next two are on their way.
LOOP: dict[str, Any] = {"STAGES": 3, "num_warps": WARPS}
FEWEST_TILES = 4  # that a program of a backward pass should have, so that partial sums stay few
# Programs of a backward pass that fit on a multiprocessor at once; each leaves one partial sum.
NORMS, SUMS, GELUS = 3, 8, 4


def keep_norm(
    x_RD: Tensor, gain_D: Tensor, shift_D: Tensor, epsilon: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """x itself and its layer norm in the type of the products; both gradients meet in one pass."""
    kept: tuple[Tensor, Tensor] = _KeepNorm.apply(x_RD, gain_D, shift_D, epsilon, dtype)
    return kept


def add_norm(
    x_RD: Tensor, change_RD: Tensor, bias_D: Tensor, gain_D: Tensor, shift_D: Tensor,
    epsilon: float, rate: float, seed: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """x + dropout(change + bias), and its layer norm in the type of the change."""
    added: tuple[Tensor, Tensor] = _AddNorm.apply(x_RD, change_RD, bias_D, gain_D, shift_D, epsilon, rate, seed)
    return added


def add(x_RD: Tensor, change_RD: Tensor, bias_D: Tensor, rate: float, seed: Tensor | None) -> Tensor:
    """x + dropout(change + bias)."""
    added: Tensor = _Add.apply(x_RD, change_RD, bias_D, rate, seed)
    return added


def activation(x_RD: Tensor, bias_D: Tensor, gelu: bool, rate: float, seed: Tensor | None) -> Tensor:
    """dropout(GELU(x + bias)), or ReLU instead of GELU."""
    activated: Tensor = _Activation.apply(x_RD, bias_D, gelu, rate, seed)
    return activated


def embedding(value_R: Tensor, weight_D: Tensor, bias_D: Tensor, dtype: torch.dtype) -> Tensor:
    """GELU(value * weight + bias) for single numbers that need no gradient."""
    embedded: Tensor = _Embedding.apply(value_R, weight_D, bias_D, dtype)
    return embedded


def product(x_RD: Tensor, weight_ED: Tensor, copy_ED: Tensor) -> Tensor:
    """x @ weight.T, without a bias."""
    out: Tensor = _Product.apply(x_RD, weight_ED, copy_ED)
    return out


def linear(x_RD: Tensor, weight_ED: Tensor, copy_ED: Tensor, bias_E: Tensor, bias_copy_E: Tensor) -> Tensor:
    """x @ weight.T + bias."""
    out: Tensor = _Linear.apply(x_RD, weight_ED, copy_ED, bias_E, bias_copy_E)
    return out


class _KeepNorm(Function):
    @staticmethod
    def forward(ctx: Any, x_RD: Tensor, gain_D: Tensor, shift_D: Tensor, epsilon: float, dtype: torch.dtype) -> Any:
        x_RD = x_RD.contiguous()
        out_RD, mean_R, inverse_R = _norm_buffers(x_RD, dtype)
        tensors = (x_RD, x_RD, gain_D, gain_D, shift_D, gain_D, x_RD, out_RD, mean_R, inverse_R)
        grid, shape = _by_rows(x_RD)
        kernels.norm_forward[grid](*tensors, len(x_RD), epsilon, 0, 1.0, *shape, ADD=False, DROP=False, num_warps=WARPS)
        ctx.save_for_backward(x_RD, mean_R, inverse_R, gain_D)
        return x_RD.view_as(x_RD), out_RD

    @staticmethod
    def backward(ctx: Any, dsum_RD: Tensor, dout_RD: Tensor) -> Any:
        x_RD, mean_R, inverse_R, gain_D = ctx.saved_tensors
        dx_RD = torch.empty_like(x_RD)
        (grid, tiles, shape), partial = _by_programs(x_RD, 2, NORMS)
        arrays = (dout_RD.contiguous(), dsum_RD.contiguous(), x_RD, mean_R, inverse_R, gain_D, gain_D, dx_RD, dx_RD)
        kernels.norm_backward[grid](*arrays, partial, len(x_RD), tiles, 0, 1.0, *shape, ADD=False, DROP=False, **LOOP)
        return dx_RD, *_totals(partial), None, None


class _AddNorm(Function):
    @staticmethod
    def forward(
        ctx: Any, x_RD: Tensor, change_RD: Tensor, bias_D: Tensor, gain_D: Tensor, shift_D: Tensor,
        epsilon: float, rate: float, seed: Tensor | None,
    ) -> Any:  # fmt: skip
        x_RD, change_RD, sum_RD = x_RD.contiguous(), change_RD.contiguous(), torch.empty_like(x_RD)
        out_RD, mean_R, inverse_R = _norm_buffers(x_RD, change_RD.dtype)
        seed_or_any = gain_D if seed is None else seed
        arrays = (x_RD, change_RD, bias_D, gain_D, shift_D, seed_or_any, sum_RD, out_RD, mean_R, inverse_R)
        (grid, shape), drop = _by_rows(x_RD), _drop(rate)
        kernels.norm_forward[grid](
            *arrays, len(x_RD), epsilon, *drop, *shape, ADD=True, DROP=rate > 0.0, num_warps=WARPS
        )
        ctx.save_for_backward(sum_RD, mean_R, inverse_R, gain_D, seed_or_any)
        ctx.rate, ctx.dtype = rate, change_RD.dtype
        return sum_RD, out_RD

    @staticmethod
    def backward(ctx: Any, dsum_RD: Tensor, dout_RD: Tensor) -> Any:
        sum_RD, mean_R, inverse_R, gain_D, seed = ctx.saved_tensors
        dx_RD, dchange_RD = torch.empty_like(sum_RD), torch.empty_like(sum_RD, dtype=ctx.dtype)
        (grid, tiles, shape), partial = _by_programs(sum_RD, 3, NORMS)
        arrays = (dout_RD.contiguous(), dsum_RD.contiguous(), sum_RD, mean_R, inverse_R, gain_D, seed)
        numbers = (len(sum_RD), tiles, *_drop(ctx.rate))
        kernels.norm_backward[grid](
            *arrays, dx_RD, dchange_RD, partial, *numbers, *shape, ADD=True, DROP=ctx.rate > 0.0, **LOOP
        )
        dgain_D, dshift_D, dbias_D = _totals(partial)
        return dx_RD, dchange_RD, dbias_D, dgain_D, dshift_D, None, None, None


class _Add(Function):
    @staticmethod
    def forward(ctx: Any, x_RD: Tensor, change_RD: Tensor, bias_D: Tensor, rate: float, seed: Tensor | None) -> Tensor:
        x_RD, change_RD, out_RD = x_RD.contiguous(), change_RD.contiguous(), torch.empty_like(x_RD)
        (grid, shape), seed_or_any = _by_rows(x_RD), bias_D if seed is None else seed
        arrays = (x_RD, change_RD, bias_D, seed_or_any, out_RD)
        kernels.add_forward[grid](*arrays, len(x_RD), *_drop(rate), *shape, DROP=rate > 0.0, num_warps=WARPS)
        ctx.save_for_backward(seed_or_any)
        ctx.rate, ctx.dtype = rate, change_RD.dtype
        return out_RD

    @staticmethod
    def backward(ctx: Any, dout_RD: Tensor) -> Any:
        (seed,) = ctx.saved_tensors
        dout_RD = dout_RD.contiguous()
        dchange_RD, dbias_D = _column_sums(dout_RD, seed, ctx.rate, ctx.dtype)
        return dout_RD, dchange_RD, dbias_D, None, None


class _Activation(Function):
    @staticmethod
    def forward(ctx: Any, x_RD: Tensor, bias_D: Tensor, gelu: bool, rate: float, seed: Tensor | None) -> Tensor:
        x_RD, out_RD = x_RD.contiguous(), torch.empty_like(x_RD)
        (grid, shape), seed_or_any = _by_rows(x_RD), bias_D if seed is None else seed
        arrays = (x_RD, bias_D, seed_or_any, out_RD)
        kernels.activation_forward[grid](
            *arrays, len(x_RD), *_drop(rate), *shape, GELU=gelu, DROP=rate > 0.0, num_warps=WARPS
        )
        ctx.save_for_backward(x_RD if gelu else out_RD, bias_D, seed_or_any)
        ctx.gelu, ctx.rate = gelu, rate
        return out_RD

    @staticmethod
    def backward(ctx: Any, dout_RD: Tensor) -> Any:
        known_RD, bias_D, seed = ctx.saved_tensors
        dx_RD = torch.empty_like(known_RD)
        (grid, tiles, shape), partial = _by_programs(known_RD, 1, GELUS if ctx.gelu else SUMS)
        arrays = (dout_RD.contiguous(), known_RD, bias_D, seed, dx_RD, partial)
        numbers = (len(known_RD), tiles, *_drop(ctx.rate))
        kernels.activation_backward[grid](*arrays, *numbers, *shape, GELU=ctx.gelu, DROP=ctx.rate > 0.0, **LOOP)
        return dx_RD, _totals(partial)[0], None, None, None


class _Embedding(Function):
    @staticmethod
    def forward(ctx: Any, value_R: Tensor, weight_D: Tensor, bias_D: Tensor, dtype: torch.dtype) -> Tensor:
        value_R, weight_D = value_R.contiguous(), weight_D.contiguous()
        out_RD = torch.empty(len(value_R), len(weight_D), dtype=dtype, device=value_R.device)
        grid, shape = _by_rows(out_RD)
        kernels.embedding_forward[grid](value_R, weight_D, bias_D, out_RD, len(value_R), *shape, num_warps=WARPS)
        ctx.save_for_backward(value_R, weight_D, bias_D)
        return out_RD

    @staticmethod
    def backward(ctx: Any, dout_RD: Tensor) -> Any:
        value_R, weight_D, bias_D = ctx.saved_tensors
        dout_RD = dout_RD.contiguous()
        (grid, tiles, shape), partial = _by_programs(dout_RD, 2, GELUS)
        kernels.embedding_backward[grid](
            dout_RD, value_R, weight_D, bias_D, partial, len(value_R), tiles, *shape, **LOOP
        )
        return None, *_totals(partial), None


class _Product(Function):
    @staticmethod
    def forward(ctx: Any, x_RD: Tensor, _: Tensor, copy_ED: Tensor) -> Tensor:
        ctx.save_for_backward(x_RD, copy_ED)
        return x_RD @ copy_ED.T

    @staticmethod
    def backward(ctx: Any, dout_RE: Tensor) -> Any:
        x_RD, copy_ED = ctx.saved_tensors
        return dout_RE @ copy_ED, _weight_gradient(dout_RE, x_RD), None


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, x_RD: Tensor, _: Tensor, copy_ED: Tensor, __: Tensor, bias_copy_E: Tensor) -> Tensor:
        ctx.save_for_backward(x_RD, copy_ED)
        return torch.addmm(bias_copy_E, x_RD, copy_ED.T)

    @staticmethod
    def backward(ctx: Any, dout_RE: Tensor) -> Any:
        x_RD, copy_ED = ctx.saved_tensors
        dout_RE = dout_RE.contiguous()
        _, dbias_E = _column_sums(dout_RE, dout_RE, 0.0, dout_RE.dtype)
        return dout_RE @ copy_ED, _weight_gradient(dout_RE, x_RD), None, dbias_E, None


def _weight_gradient(dout_RE: Tensor, x_RD: Tensor) -> Tensor:
    """dout.T @ x, summed and kept in float32."""
    if dout_RE.dtype == torch.float32 or not dout_RE.is_cuda:
        return (dout_RE.T @ x_RD).float()
    return torch.mm(dout_RE.T, x_RD, out_dtype=torch.float32)


def _column_sums(dout_RD: Tensor, seed: Tensor, rate: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The gradient behind a dropout (the same array where nothing changes), and its sums over rows."""
    store = rate > 0.0 or dtype != dout_RD.dtype
    dchange_RD = torch.empty_like(dout_RD, dtype=dtype) if store else dout_RD
    (grid, tiles, shape), partial = _by_programs(dout_RD, 1, SUMS)
    numbers = (len(dout_RD), tiles, *_drop(rate))
    kernels.add_backward[grid](
        dout_RD, seed, dchange_RD, partial, *numbers, *shape, STORE=store, DROP=rate > 0.0, **LOOP
    )
    return dchange_RD, _totals(partial)[0]


def _norm_buffers(x_RD: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    mean_R = torch.empty(len(x_RD), dtype=torch.float32, device=x_RD.device)
    return torch.empty_like(x_RD, dtype=dtype), mean_R, torch.empty_like(mean_R)


def _shape(x_RD: Tensor) -> tuple[int, int, int]:
    """Width, its tile, and rows at once."""
    width = x_RD.shape[1]
    block = triton.next_power_of_2(width)
    return width, block, max(1, TILE // block)


def _by_rows(x_RD: Tensor) -> tuple[tuple[int], tuple[int, int, int]]:
    """A program for each tile of rows."""
    shape = _shape(x_RD)
    return (triton.cdiv(len(x_RD), shape[2]),), shape


def _by_programs(x_RD: Tensor, sums: int, each: int) -> tuple[tuple[tuple[int], int, tuple[int, int, int]], Tensor]:
    """As many programs as run at once share all tiles; and room for so many partial sums of each."""
    shape = _shape(x_RD)
    tiles = triton.cdiv(len(x_RD), shape[2])
    programs = min(each * _multiprocessors(x_RD.device), triton.cdiv(tiles, FEWEST_TILES))
    partial_SPD = torch.empty(sums, programs, shape[0], dtype=torch.float32, device=x_RD.device)
    return ((programs,), tiles, shape), partial_SPD


@cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def _totals(partial_SPD: Tensor) -> Tensor:
    """The sums of all programs together."""
    sums, programs, width = partial_SPD.shape
    total_SD = partial_SPD.new_empty(sums, width)
    grid = (triton.cdiv(width, 16), sums)
    kernels.totals[grid](partial_SPD, total_SD, programs, width, BLOCK=16, ROWS=128, num_warps=WARPS)
    return total_SD


def _drop(rate: float) -> tuple[int, float]:
    """The threshold that random bits must reach, and what kept entries are multiplied by."""
    return int(rate * 2**32) - 2**31, 1.0 / (1.0 - rate)
