"""Layers of several networks at once: every member has weights of its own, and one batched product serves them all.

A network of this size keeps a GPU busy with launching kernels and a CPU with calling operations; members that took
turns would double both. E members lie along the first axis of everything; I features enter, O leave, D width,
B windows, L positions, S positions of a memory, J heads.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossfeed.model.parts.attention import attend


class MemberLinear(nn.Module):
    """A linear map for each member, of arrays (E, ..., I)."""

    def __init__(self, members: int, entering: int, leaving: int) -> None:
        super().__init__()
        bound = entering**-0.5
        self.weight = nn.Parameter(torch.empty(members, leaving, entering).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, leaving).uniform_(-bound, bound))

    def forward(self, x_EI: Tensor) -> Tensor:
        if len(self.weight) == 1:  # a plain product, which exported graphs can also have in int8
            return functional.linear(x_EI, self.weight[0], self.bias[0])
        flat_ENI = x_EI.flatten(1, -2)
        said_ENO = torch.baddbmm(self.bias.unsqueeze(1), flat_ENI, self.weight.transpose(1, 2))
        return said_ENO.view(*x_EI.shape[:-1], -1)


class MemberAttention(nn.Module):
    """Every position reads the allowed positions of a memory; `allowed` broadcasts to (B, J, L, S)."""

    def __init__(self, members: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key_value = _projection(members, width, width), _projection(members, width, 2 * width)
        self.out = MemberLinear(members, width, width)
        nn.init.zeros_(self.out.bias)

    def forward(self, x_EBLD: Tensor, memory_EBSD: Tensor, allowed: Tensor) -> Tensor:
        key_EBSD, value_EBSD = self.key_value(memory_EBSD).chunk(2, -1)
        query, key, value = (self._split(part) for part in (self.query(x_EBLD), key_EBSD, value_EBSD))
        out_EBLD: Tensor = self.out(attend(query, key, value, allowed, 0.0).transpose(2, 3).flatten(3))
        return out_EBLD

    def _split(self, x_EBLD: Tensor) -> Tensor:
        return x_EBLD.view(*x_EBLD.shape[:-1], self.heads, -1).transpose(2, 3)


def member_norm(x_ED: Tensor) -> Tensor:
    """Each position with mean 0 and variance 1; the linear map that follows has gain and offset of its own."""
    return functional.layer_norm(x_ED, x_ED.shape[-1:])


def member_embedding(members: int, rows: int, width: int) -> nn.Parameter:
    """A learned table for each member, drawn from N(0, 0.02^2)."""
    return nn.Parameter(nn.init.normal_(torch.empty(members, rows, width), std=0.02))


def _projection(members: int, width: int, leaving: int) -> MemberLinear:
    linear = MemberLinear(members, width, leaving)
    for weight_OI in linear.weight:
        nn.init.xavier_uniform_(weight_OI)
    nn.init.zeros_(linear.bias)
    return linear
