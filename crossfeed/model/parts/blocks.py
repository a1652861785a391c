"""The transformer block that every part of the paper's network is made of: attention, feed-forward, dropout.

B batch, N heads, L queries, S keys, E head width, D latent width. `allowed` is a boolean mask that broadcasts to
(B, N, L, S); True means "may be read". A query that may read nothing gets a finite average that its caller drops.
"""

from collections.abc import Callable
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from crossfeed.configuration import CheckedForm


class Dropout(nn.Module):
    """Hides entries while training and scales up the others."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return dropped(x, self.rate) if self.training and self.rate > 0.0 else x


def dropped(x: Tensor, rate: float) -> Tensor:
    """The array with entries hidden; on a CPU one draw of 64 bits serves four entries, 2.5 times as quick.

    The rate is then a multiple of 1/65536.
    """
    if x.device.type != "cpu":
        return functional.dropout(x, rate)
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = bits[: x.numel()].view(x.shape) >= round(rate * 2**16) - 2**15
    return x * kept.to(x.dtype).mul_(1.0 / (1.0 - rate))


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


Change = Callable[[Tensor], Tensor]


def check_heads(heads: int, width: int) -> None:
    """Refuse attention heads that do not share the width equally."""
    if width % heads:
        raise ValueError(
            f"{heads} attention heads do not divide the width {width}: "
            f"choose a width that is a multiple of {heads}, or another number of heads"
        )


class BlockConfig(CheckedForm):
    """Width and habits of all blocks; the feed-forward layer is `expansion` times as wide."""

    width: int = Field(default=256, ge=1)
    heads: int = Field(default=8, ge=1)
    expansion: int = Field(default=4, ge=1)
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    activation: Literal["gelu", "relu"] = "gelu"
    norm: Literal["pre", "post"] = "pre"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        check_heads(self.heads, self.width)
        return self


class Block(nn.Module):
    """Self-attention, then (on request) cross-attention to a memory, then feed-forward; each normed and added."""

    def __init__(self, config: BlockConfig, *, cross: bool = False) -> None:
        super().__init__()
        width, hidden = config.width, config.width * config.expansion
        self.norm_first = config.norm == "pre"
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, config.heads, config.dropout)
        self.memory_norm = nn.LayerNorm(width) if cross else None
        self.memory_attention = CrossAttention(width, config.heads, config.dropout) if cross else None
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, hidden),
            nn.GELU() if config.activation == "gelu" else nn.ReLU(),
            Dropout(config.dropout),
            nn.Linear(hidden, width),
        )
        self.attention_dropout, self.feed_forward_dropout = Dropout(config.dropout), Dropout(config.dropout)
        self.memory_dropout = Dropout(config.dropout)

    def forward(
        self,
        x_BLD: Tensor,
        allowed: Tensor | None = None,
        memory_BSD: Tensor | None = None,
        memory_allowed: Tensor | None = None,
    ) -> Tensor:
        x_BLD = self._attended(x_BLD, lambda seen_BLD: self.attention(seen_BLD, allowed))
        memory_attention = self.memory_attention
        if memory_attention is not None and self.memory_norm is not None and memory_BSD is not None:

            def read_memory(seen_BLD: Tensor) -> Tensor:
                read_BLD: Tensor = memory_attention(seen_BLD, memory_BSD, memory_allowed)
                return read_BLD

            x_BLD = self._add(x_BLD, self.memory_norm, read_memory, self.memory_dropout)
        return self._fed_forward(x_BLD)

    def last(self, x_BLD: Tensor) -> Tensor:
        """What `forward` gives at the last position, for a fraction of the cost."""
        x_B1D = self._attended(x_BLD, lambda seen_BLD: self.attention(seen_BLD, last_only=True))
        return self._fed_forward(x_B1D).squeeze(1)

    @property
    def commutes(self) -> bool:
        """Whether a mean over positions may come before the last product: nothing is dropped or normed after it."""
        return self.norm_first and (not self.training or self.feed_forward_dropout.rate == 0.0)

    def mean(self, x_BLD: Tensor, allowed: Tensor, weight_BL: Tensor) -> Tensor:
        """The weighted mean of what `forward` gives, if it `commutes`: one last product a sequence, not one a position.

        Weights of a sequence sum to one, or are all zero; then so is the mean.
        """
        x_BLD = self._attended(x_BLD, lambda seen_BLD: self.attention(seen_BLD, allowed))
        *before, last = self.feed_forward
        hidden_BLE = self.feed_forward_norm(x_BLD)
        for module in before:
            hidden_BLE = module(hidden_BLE)
        weight_B1L = weight_BL.to(hidden_BLE.dtype).unsqueeze(1)
        change_B1D = last(weight_B1L @ hidden_BLE) * weight_BL.any(1)[:, None, None]
        mean_BD: Tensor = (weight_B1L.to(x_BLD.dtype) @ x_BLD + change_B1D).squeeze(1)
        return mean_BD

    def _attended(self, x_BLD: Tensor, attend: Change) -> Tensor:
        return self._add(x_BLD, self.attention_norm, attend, self.attention_dropout)

    def _fed_forward(self, x_BLD: Tensor) -> Tensor:
        return self._add(x_BLD, self.feed_forward_norm, self.feed_forward, self.feed_forward_dropout)

    def _add(self, x_BLD: Tensor, norm: nn.LayerNorm, change: Change, dropout: Dropout) -> Tensor:
        """x + f(norm(x)), or norm(x + f(x)); where the change is of the last position only, so is the result."""
        change_BLD = dropout(change(norm(x_BLD) if self.norm_first else x_BLD))
        added_BLD: Tensor = x_BLD[:, -change_BLD.shape[1] :] + change_BLD
        return added_BLD if self.norm_first else norm(added_BLD)


def embedding(rows: int, width: int) -> nn.Parameter:
    """A learned table, drawn from N(0, 0.02^2)."""
    return nn.Parameter(nn.init.normal_(torch.empty(rows, width), std=0.02))
