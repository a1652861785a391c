"""Who a channel is: its quantity and its place on the machine first, its own name second.

What is learned about one axis current serves the others, and a sensor that the source never showed is no stranger.
"""

import re

import torch
from torch import Tensor, nn

from crossfeed.model.parts.blocks import embedding
from crossfeed.schema import QUANTITIES, Channel

PLACES = ("spindle", "x", "y", "z", "a", "b", "c")


def place_of(channel: Channel) -> str:
    """Which part of the machine a channel belongs to, by the words of its name; empty when none is named."""
    words = re.split(r"[\W_]+", channel.name.lower())
    return next((word for word in words if word in PLACES), "")


class Identity(nn.Module):
    """One vector per channel: the sum of what its quantity, its place and its own name stand for."""

    quantity_C: Tensor
    place_C: Tensor

    def __init__(self, channels: tuple[Channel, ...], width: int) -> None:
        super().__init__()
        known = list(QUANTITIES)
        quantity_C = [
            known.index(channel.quantity) if channel.quantity in known else len(known) for channel in channels
        ]
        place_C = [PLACES.index(place) if (place := place_of(channel)) else len(PLACES) for channel in channels]
        self.register_buffer("quantity_C", torch.tensor(quantity_C), persistent=False)
        self.register_buffer("place_C", torch.tensor(place_C), persistent=False)
        self.quantity = embedding(len(known) + 1, width)
        self.place = embedding(len(PLACES) + 1, width)
        self.own = embedding(len(channels), width)

    def forward(self) -> Tensor:
        vector_CD: Tensor = (
            self.own + self.quantity.index_select(0, self.quantity_C) + self.place.index_select(0, self.place_C)
        )
        return vector_CD
