"""Who a channel is: its quantity and its place on the machine first, its own name second.

What is learned about one axis current serves the others, and a sensor that the source never showed is no stranger. A
network that is to read any machine knows no names at all: what else a name tells, it tells by a few common words.
"""

import torch
from torch import Tensor, nn

from crossfeed.model.sensors.members import member_embedding
from crossfeed.schema import PLACES, Channel

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
