"""Who a channel is: its quantity and its place on the machine first, its own name second.

What is learned about one axis current serves the others, and a sensor that the source never showed is no stranger. A
network that is to read any machine knows no names at all: what else a name tells, it tells by a few common words.
"""

import torch
from torch import Tensor, nn

from crossfeed.model.parts.blocks import embedding
from crossfeed.schema import PLACES, QUANTITIES, Channel

# Words that tell two sensors of one quantity and place apart.
DETAILS = ("output", "dc", "actual", "motor", "ambient", "turning", "coolant")


class Identity(nn.Module):
    """One vector per channel: the sum of what its quantity, its place and its own name, or its words, stand for."""

    quantity_C: Tensor
    place_C: Tensor
    detail_C: Tensor

    def __init__(self, channels: tuple[Channel, ...], width: int, named: bool = True) -> None:
        super().__init__()
        quantities = list(QUANTITIES)
        details = [next((word for word in channel.words if word in DETAILS), "") for channel in channels]
        self.register_buffer("quantity_C", _numbers([c.quantity for c in channels], quantities), persistent=False)
        self.register_buffer("place_C", _numbers([c.place for c in channels], list(PLACES)), persistent=False)
        self.register_buffer("detail_C", _numbers(details, list(DETAILS)), persistent=False)
        self.quantity = embedding(len(quantities) + 1, width)
        self.place = embedding(len(PLACES) + 1, width)
        self.own = embedding(len(channels), width) if named else None
        self.detail = None if named else embedding(len(DETAILS) + 1, width)

    def forward(self) -> Tensor:
        vector_CD: Tensor = self.quantity.index_select(0, self.quantity_C) + self.place.index_select(0, self.place_C)
        if self.own is not None:
            return self.own + vector_CD
        assert self.detail is not None
        return vector_CD + self.detail.index_select(0, self.detail_C)


def _numbers(found: list[str], known: list[str]) -> Tensor:
    """Where each word stands in a vocabulary; whatever it does not have comes after its last."""
    return torch.tensor([known.index(word) if word in known else len(known) for word in found])
