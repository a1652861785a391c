"""Layers of several networks at once, and who a channel is.

Every member has weights of its own, and one batched product serves them all. A network of this size keeps a GPU busy
with launching kernels and a CPU with calling operations; members that took turns would double both.

A channel is known by its quantity and its place on the machine first, its own name second: what is learned about one
axis current serves the others, and a sensor that the source never showed is no stranger. A network that is to read any
machine knows no names at all: what else a name tells, it tells by a few common words.

E members lie along the first axis of everything; I features enter, O leave, D width, B windows, L positions,
S positions of a memory, J heads, C channels.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossfeed.model.parts.blocks import attend
from crossfeed.schema import PLACES, Channel


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


# Words that tell two sensors of one quantity and place apart.
DETAILS = ("output", "dc", "actual", "motor", "ambient", "turning", "coolant")


class ChannelEmbedding(nn.Module):
    """For each member one vector per channel: the sum of what its quantity, place and own name, or words, stand for.

    `quantities` are those that have a row, in the order of the rows; all others share the last one.
    """

    quantity_C: Tensor
    place_C: Tensor
    detail_C: Tensor

    def __init__(
        self,
        channels: tuple[Channel, ...],
        quantities: tuple[str, ...],
        members: int,
        width: int,
        named: bool = True,
    ) -> None:
        super().__init__()
        self.register_buffer("quantity_C", _numbers([c.quantity for c in channels], list(quantities)), persistent=False)
        self.register_buffer("place_C", _numbers([c.place for c in channels], list(PLACES)), persistent=False)
        self.register_buffer("detail_C", _numbers([detail(c) for c in channels], list(DETAILS)), persistent=False)
        self.quantity = member_embedding(members, len(quantities) + 1, width)
        self.place = member_embedding(members, len(PLACES) + 1, width)
        self.own = member_embedding(members, len(channels), width) if named else None
        self.detail = None if named else member_embedding(members, len(DETAILS) + 1, width)

    def forward(self) -> Tensor:
        vector_ECD: Tensor = self.quantity.index_select(1, self.quantity_C) + self.place.index_select(1, self.place_C)
        if self.own is not None:
            return self.own + vector_ECD
        assert self.detail is not None
        return vector_ECD + self.detail.index_select(1, self.detail_C)


def detail(channel: Channel) -> str:
    """The word that tells it from others of its quantity and place; empty when its name has none."""
    return next((word for word in channel.words if word in DETAILS), "")


def _numbers(found: list[str], known: list[str]) -> Tensor:
    """Where each word stands in a vocabulary; whatever it does not have comes after its last."""
    return torch.tensor([known.index(word) if word in known else len(known) for word in found])
