"""Activation and dropout of a feed-forward layer as one function with a frugal memory.

A compiler would keep a mask of the hidden layer, the largest array of the network, beside what the gradient needs
anyway. Here ReLU reads everything from its own output, and GELU draws the hashed dropout again.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from crossfeed.model.dropout import Dropout, kept_entries

# Abramowitz and Stegun 7.1.26: the error of the error function is below 1.5e-7.
_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_ERF_SLOPE = 0.3275911


class DroppedActivation(nn.Module):
    """Takes the places of an activation and the dropout behind it, once that draws by hash."""

    def __init__(self, activation: nn.Module, dropout: Dropout) -> None:
        super().__init__()
        self.function = _DroppedReLU if isinstance(activation, nn.ReLU) else _DroppedGELU
        self.activation, self.dropout = activation, dropout

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            alone: Tensor = self.activation(x)
            return alone
        out: Tensor = self.function.apply(x, self.dropout.rate, self.dropout.seed)  # type: ignore[no-untyped-call]
        return out


class _DroppedReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float, seed: Tensor) -> Tensor:
        out = x.relu()
        if rate > 0.0:
            out = torch.where(kept_entries(x, rate, seed), out * (1.0 / (1.0 - rate)), 0.0)
        ctx.save_for_backward(out)
        ctx.rate = rate
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (out,) = ctx.saved_tensors
        return torch.where(out > 0.0, gradient * (1.0 / (1.0 - ctx.rate)), 0.0), None, None


class _DroppedGELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float, seed: Tensor) -> Tensor:
        ctx.save_for_backward(x, seed)
        ctx.rate = rate
        share, _ = normal_distribution(x)
        return _dropped(x * share, rate, seed).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        x, seed = ctx.saved_tensors
        share, density = normal_distribution(x)
        return _dropped(gradient * (share + x * density), ctx.rate, seed).to(x.dtype), None, None


def _dropped(value: Tensor, rate: float, seed: Tensor) -> Tensor:
    if rate == 0.0:
        return value
    return torch.where(kept_entries(value, rate, seed), value * (1.0 / (1.0 - rate)), 0.0)


def normal_distribution(x: Tensor) -> tuple[Tensor, Tensor]:
    """Distribution function and density of the standard normal, in float32, for one exponential and one division."""
    x = x.float()
    away = x.abs() * math.sqrt(0.5)
    power = torch.exp(-away * away)
    t = 1.0 / (1.0 + _ERF_SLOPE * away)
    tail = 0.5 * power * t * (_ERF[0] + t * (_ERF[1] + t * (_ERF[2] + t * (_ERF[3] + t * _ERF[4]))))
    return torch.where(x >= 0.0, 1.0 - tail, tail), power * (1.0 / math.sqrt(2.0 * math.pi))
