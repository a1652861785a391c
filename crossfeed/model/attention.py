"""Attention for short sequences: the one place where scores and weights are computed.

B batch, N heads, L queries, S keys, E head width, D latent width. `allowed` is a boolean mask that broadcasts to
(B, N, L, S); True means "may be read". A query that may read nothing gets a finite average that its caller drops.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


def attend(query_BNLE: Tensor, key_BNSE: Tensor, value_BNSE: Tensor, allowed: Tensor | None, dropout: float) -> Tensor:
    """Weighted values by two batched products and a softmax; faster than library kernels below some 100 keys."""
    score_BNLS = (query_BNLE * query_BNLE.shape[-1] ** -0.5) @ key_BNSE.transpose(-2, -1)
    if allowed is not None:
        score_BNLS = score_BNLS.masked_fill(~allowed, torch.finfo(score_BNLS.dtype).min)
    weight_BNLS = score_BNLS.softmax(-1).to(value_BNSE.dtype)
    if dropout > 0.0:
        weight_BNLS = functional.dropout(weight_BNLS, dropout)
    mixed_BNLE: Tensor = weight_BNLS @ value_BNSE
    return mixed_BNLE


class SelfAttention(nn.Module):
    """Every position (or, on request, the last one only) reads the allowed positions of its own sequence."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query_key_value = _projection(width, 3 * width)
        self.out = _output(width)

    def forward(self, x_BLD: Tensor, allowed: Tensor | None = None, last_only: bool = False) -> Tensor:
        query, key, value = (_split(part, self.heads) for part in self.query_key_value(x_BLD).chunk(3, -1))
        if last_only:
            query = query[:, :, -1:]
        read_BNLE = attend(query, key, value, allowed, self.dropout if self.training else 0.0)
        out_BLD: Tensor = self.out(_merge(read_BNLE))
        return out_BLD


class CrossAttention(nn.Module):
    """Every position reads the allowed positions of another sequence."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = _projection(width, width)
        self.key_value = _projection(width, 2 * width)
        self.out = _output(width)

    def forward(self, x_BLD: Tensor, memory_BSD: Tensor, allowed: Tensor | None = None) -> Tensor:
        query = _split(self.query(x_BLD), self.heads)
        key, value = (_split(part, self.heads) for part in self.key_value(memory_BSD).chunk(2, -1))
        read_BNLE = attend(query, key, value, allowed, self.dropout if self.training else 0.0)
        out_BLD: Tensor = self.out(_merge(read_BNLE))
        return out_BLD


def _projection(width: int, out: int) -> nn.Linear:
    linear = nn.Linear(width, out)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def _output(width: int) -> nn.Linear:
    linear = nn.Linear(width, width)
    nn.init.zeros_(linear.bias)
    return linear


def _split(x_BLD: Tensor, heads: int) -> Tensor:
    return x_BLD.view(*x_BLD.shape[:2], heads, -1).transpose(1, 2)


def _merge(x_BNLE: Tensor) -> Tensor:
    return x_BNLE.transpose(1, 2).flatten(2)
