"""What the row kernels compute, in plain words: the reference of `row_operators`, function by function.

R rows, D width, E width of a product.
"""

import torch
from torch import Tensor
from torch.nn import functional

from crossfeed.model.parts.dropout import hashed_dropout


def keep_norm(
    x_RD: Tensor, gain_D: Tensor, shift_D: Tensor, epsilon: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """x itself and its layer norm in the type of the products."""
    return x_RD, functional.layer_norm(x_RD, x_RD.shape[1:], gain_D, shift_D, epsilon).to(dtype)


def add_norm(
    x_RD: Tensor,
    change_RD: Tensor,
    bias_D: Tensor,
    gain_D: Tensor,
    shift_D: Tensor,
    epsilon: float,
    rate: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """x + dropout(change + bias), and its layer norm in the type of the change."""
    return keep_norm(add(x_RD, change_RD, bias_D, rate, seed), gain_D, shift_D, epsilon, change_RD.dtype)


def add(x_RD: Tensor, change_RD: Tensor, bias_D: Tensor, rate: float, seed: Tensor | None) -> Tensor:
    """x + dropout(change + bias)."""
    return (x_RD + _dropped(change_RD + bias_D, rate, seed)).to(x_RD.dtype)


def activation(x_RD: Tensor, bias_D: Tensor, gelu: bool, rate: float, seed: Tensor | None) -> Tensor:
    """dropout(GELU(x + bias)), or ReLU instead of GELU."""
    x_RD = x_RD + bias_D
    return _dropped(functional.gelu(x_RD) if gelu else x_RD.relu(), rate, seed)


def embedding(value_R: Tensor, weight_D: Tensor, bias_D: Tensor, dtype: torch.dtype) -> Tensor:
    """GELU(value * weight + bias) for single numbers."""
    return functional.gelu(value_R.unsqueeze(1) * weight_D + bias_D).to(dtype)


def product(x_RD: Tensor, weight_ED: Tensor, copy_ED: Tensor) -> Tensor:
    """x @ weight.T, without a bias."""
    return x_RD @ weight_ED.to(copy_ED.dtype).T


def linear(x_RD: Tensor, weight_ED: Tensor, copy_ED: Tensor, bias_E: Tensor, bias_copy_E: Tensor) -> Tensor:
    """x @ weight.T + bias."""
    return product(x_RD, weight_ED, copy_ED) + bias_E.to(bias_copy_E.dtype)


def _dropped(x: Tensor, rate: float, seed: Tensor | None) -> Tensor:
    return x if rate == 0.0 or seed is None else hashed_dropout(x, rate, seed)
