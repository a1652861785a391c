"""Blocks and token embedding by way of the row kernels: the same functions, in a third of the passes over memory.

Products take copies of the weights in their own type, made anew each time a part of the network begins to run, so that
they can never be out of date.

N tokens, D latent width.
"""

from types import ModuleType
from typing import cast

import torch
from torch import Tensor, nn

from crossfeed.model.parts.attention import CrossAttention, SelfAttention
from crossfeed.model.parts.blocks import Block
from crossfeed.model.parts.dropout import Dropout
from crossfeed.model.parts.packing import Sequences


class WeightCopies:
    """The weights of a module's products in the type the products are computed in."""

    def __init__(self, module: nn.Module, dtype: torch.dtype, rows: ModuleType) -> None:
        """`rows` has the functions of `row_operators`, or of its reference."""
        self.dtype, self._rows = dtype, rows
        linears = [part for part in module.modules() if isinstance(part, nn.Linear)]
        self._weights = [weight for part in linears for weight in (part.weight, part.bias)]
        self._copies = [torch.empty_like(weight, dtype=dtype) for weight in self._weights]
        self._copy_of = {id(weight): copy for weight, copy in zip(self._weights, self._copies, strict=True)}

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy all weights as they are now."""
        torch._foreach_copy_(self._copies, self._weights)

    def product(self, x_ND: Tensor, linear: nn.Linear) -> Tensor:
        """The product of a linear layer, without its bias."""
        out_NE: Tensor = self._rows.product(x_ND, linear.weight, self._copy_of[id(linear.weight)])
        return out_NE

    def linear(self, x_ND: Tensor, linear: nn.Linear) -> Tensor:
        """A linear layer."""
        copy, bias_copy = self._copy_of[id(linear.weight)], self._copy_of[id(linear.bias)]
        out_NE: Tensor = self._rows.linear(x_ND, linear.weight, copy, linear.bias, bias_copy)
        return out_NE

    def embed(self, value_N: Tensor, value: nn.Sequential) -> Tensor:
        """What the two layers of a token embedding make of single numbers."""
        first, _, second = cast(tuple[nn.Linear, nn.Module, nn.Linear], tuple(value))
        return self.linear(self._rows.embedding(value_N, first.weight.squeeze(1), first.bias, self.dtype), second)

    def run(
        self,
        block: Block,
        x_BLD: Tensor,
        allowed: Tensor | Sequences | None,
        memory_BSD: Tensor | None,
        memory_allowed: Tensor | None,
    ) -> Tensor:
        """`Block.forward` for a block that norms first."""
        shape = x_BLD.shape
        x_ND, seen_ND = self._rows.keep_norm(x_BLD.reshape(-1, shape[-1]), *_norm(block.attention_norm), self.dtype)
        change_ND = self.product(self._mix(block.attention, seen_ND, allowed, shape), block.attention.out)
        bias_D, drop = block.attention.out.bias, _drop(block.attention_dropout)
        if block.memory_attention is not None and block.memory_norm is not None and memory_BSD is not None:
            x_ND, seen_ND = self._rows.add_norm(x_ND, change_ND, bias_D, *_norm(block.memory_norm), *drop)
            mixed_ND = self._mix_memory(block.memory_attention, seen_ND, memory_BSD, memory_allowed, shape)
            change_ND = self.product(mixed_ND, block.memory_attention.out)
            bias_D, drop = block.memory_attention.out.bias, _drop(block.memory_dropout)
        x_ND, seen_ND = self._rows.add_norm(x_ND, change_ND, bias_D, *_norm(block.feed_forward_norm), *drop)
        first, activation, dropout, last = cast(
            tuple[nn.Linear, nn.Module, Dropout, nn.Linear], tuple(block.feed_forward)
        )
        gelu = isinstance(activation, nn.GELU)
        hidden_NE = self._rows.activation(self.product(seen_ND, first), first.bias, gelu, *_drop(dropout))
        drop = _drop(block.feed_forward_dropout)
        out_ND: Tensor = self._rows.add(x_ND, self.product(hidden_NE, last), last.bias, *drop)
        return out_ND.view(shape)

    def _mix(
        self, attention: SelfAttention, seen_ND: Tensor, allowed: Tensor | Sequences | None, shape: torch.Size
    ) -> Tensor:
        """What the heads of a self-attention read, before the product that follows."""
        qkv_NE = self.linear(seen_ND, attention.query_key_value)
        mixed = attention.mix(qkv_NE.view(*shape[:-1], -1), allowed)
        return mixed.reshape(seen_ND.shape)

    def _mix_memory(
        self,
        attention: CrossAttention,
        seen_ND: Tensor,
        memory_BSD: Tensor,
        allowed: Tensor | None,
        shape: torch.Size,
    ) -> Tensor:
        query_BLD = self.linear(seen_ND, attention.query).view(shape)
        memory_ND = memory_BSD.to(self.dtype).flatten(0, -2)
        key_value_BSE = self.linear(memory_ND, attention.key_value).view(*memory_BSD.shape[:-1], -1)
        return attention.mix(query_BLD, key_value_BSE, allowed).reshape(seen_ND.shape)


def _norm(norm: nn.LayerNorm) -> tuple[Tensor, Tensor, float]:
    return norm.weight, norm.bias, norm.eps


def _drop(dropout: Dropout) -> tuple[float, Tensor | None]:
    return (dropout.rate, dropout.seed) if dropout.training else (0.0, None)
