"""Attention for short sequences: the one place where scores and weights are computed.

B batch, N heads, L queries, S keys, E head width, D latent width. `allowed` is a boolean mask that broadcasts to
(B, N, L, S); True means "may be read". A query that may read nothing gets a finite average that its caller drops.
"""

import torch
from torch import Tensor, nn

from crossfeed.model.parts.dropout import dropped


def attend(query_BNLE: Tensor, key_BNSE: Tensor, value_BNSE: Tensor, allowed: Tensor | None, dropout: float) -> Tensor:
    """Weighted values by two batched products and a softmax; faster than library kernels below some 100 keys."""
    score_BNLS = (query_BNLE * query_BNLE.shape[-1] ** -0.5) @ key_BNSE.transpose(-2, -1)
    if allowed is not None:
        # A sum leaves what is allowed as it is and costs a CPU a fifth of filling scores in.
        score_BNLS += (~allowed).to(score_BNLS.dtype) * torch.finfo(score_BNLS.dtype).min
    weight_BNLS = score_BNLS.softmax(-1).to(value_BNSE.dtype)
    if dropout > 0.0:
        weight_BNLS = dropped(weight_BNLS, dropout)
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
        query_BLD, key_BLD, value_BLD = self.query_key_value(x_BLD).chunk(3, -1)
        query_BLD = query_BLD[:, -1:] if last_only else query_BLD
        mixed_BLD = _read(query_BLD, key_BLD, value_BLD, allowed, self.heads, self.dropout if self.training else 0.0)
        out_BLD: Tensor = self.out(mixed_BLD)
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
        query_BLD, (key_BSD, value_BSD) = self.query(x_BLD), self.key_value(memory_BSD).chunk(2, -1)
        mixed_BLD = _read(query_BLD, key_BSD, value_BSD, allowed, self.heads, self.dropout if self.training else 0.0)
        out_BLD: Tensor = self.out(mixed_BLD)
        return out_BLD


def _read(
    query_BLD: Tensor, key_BSD: Tensor, value_BSD: Tensor, allowed: Tensor | None, heads: int, dropout: float
) -> Tensor:
    """All heads of an attention, side by side again."""
    query, key, value = (
        part.reshape(*part.shape[:2], heads, -1).transpose(1, 2) for part in (query_BLD, key_BSD, value_BSD)
    )
    return attend(query, key, value, allowed, dropout).transpose(1, 2).flatten(2)


def _projection(width: int, out: int) -> nn.Linear:
    linear = nn.Linear(width, out)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def _output(width: int) -> nn.Linear:
    linear = nn.Linear(width, width)
    nn.init.zeros_(linear.bias)
    return linear
