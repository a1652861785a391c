"""One network: tokens of sensors and past commands read each other, queries of sensor and horizon read all of them.

B windows, K context rows, T planned steps, C sensors, A commands, H horizons, F command features, D width,
N = C + A tokens, Q = H * C queries.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from crossfeed.distribution import Mixture
from crossfeed.model.parts.attention import CrossAttention
from crossfeed.model.parts.blocks import embedding
from crossfeed.model.parts.dropout import Dropout
from crossfeed.model.sensors.commands import CommandMeaning, Meaning
from crossfeed.model.sensors.config import SensorConfig
from crossfeed.model.sensors.head import MixtureHead
from crossfeed.model.sensors.identity import Identity
from crossfeed.model.sensors.window import SensorWindow
from crossfeed.schema import Schema
from crossfeed.windows.normalise import Normaliser


class AskedHorizons(NamedTuple):
    """Which of the trained horizons are asked for, and where their planned steps lie."""

    slot_H: Tensor | None  # None for all of them, in their order
    step_H: Tensor


class ReadBlock(nn.Module):
    """Positions read a memory, then think: attention and feed-forward, each normed before and added."""

    def __init__(self, config: SensorConfig, expansion: int) -> None:
        super().__init__()
        width = config.width
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = CrossAttention(width, config.heads, 0.0)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, expansion * width), nn.GELU(), Dropout(config.dropout), nn.Linear(expansion * width, width)
        )
        self.attention_dropout, self.feed_forward_dropout = Dropout(config.dropout), Dropout(config.dropout)

    def forward(self, x_BLD: Tensor, memory_BSD: Tensor | None, allowed: Tensor) -> Tensor:
        """Without a memory, positions read each other."""
        seen_BLD = self.attention_norm(x_BLD)
        read_BLD = self.attention(seen_BLD, seen_BLD if memory_BSD is None else memory_BSD, allowed)
        x_BLD = x_BLD + self.attention_dropout(read_BLD)
        thought_BLD: Tensor = self.feed_forward_dropout(self.feed_forward(self.feed_forward_norm(x_BLD)))
        return x_BLD + thought_BLD


class SensorNetwork(nn.Module):
    """Encodes a window into tokens and decodes them, under planned commands, into mixtures."""

    def __init__(self, config: SensorConfig, schema: Schema, normaliser: Normaliser, meaning: CommandMeaning) -> None:
        super().__init__()
        width, context, longest = config.width, config.context, config.horizons[-1]
        self.config = config
        named = config.identity == "named"
        self.sensors, self.commands = Identity(schema.sensors, width, named), Identity(schema.commands, width, named)
        self.sensor = _perceptron(2 * context + 3, width)
        self.past = _perceptron(2 * context, width)
        self.step = _perceptron(meaning.features, width)
        self.near = nn.Linear(3 * meaning.features, width)
        self.step_place, self.horizon = embedding(longest, width), embedding(len(config.horizons), width)
        self.encoder = nn.ModuleList(ReadBlock(config, expansion=4) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(ReadBlock(config, expansion=2) for _ in range(config.decoder_layers))
        self.norm = nn.LayerNorm(width)
        self.head = MixtureHead(config, schema, normaliser)

    def encode(self, window: SensorWindow, past_BKA: Tensor) -> Tensor:
        """Tokens (B, N, D): one for each sensor and one for each command's past; absent sensors are not read."""
        identity_CD = self.sensors()
        if window.channels is not None:
            identity_CD = identity_CD.index_select(0, window.channels)
        sensor_BCD = self.sensor(window.features_BCE) + identity_CD
        change_BKA = torch.diff(past_BKA, dim=1, prepend=past_BKA[:, :1])
        past_BAD = self.past(torch.cat([past_BKA, change_BKA], 1).transpose(1, 2).contiguous()) + self.commands()
        token_BND = torch.cat([sensor_BCD, past_BAD], 1)
        allowed_B11N = self.present(window)[:, None, None, :]
        for layer in cast(Iterable[ReadBlock], self.encoder):
            token_BND = layer(token_BND, None, allowed_B11N)
        return token_BND

    def decode(
        self, token_BND: Tensor, window: SensorWindow, meaning: Meaning, asked: AskedHorizons
    ) -> tuple[Tensor, Mixture]:
        """Queries (B, H, C, D) after they have read everything, and the mixtures they stand for."""
        batch, sensors = window.present_BC.shape
        slots, steps = len(asked.step_H), meaning.step_BTF.shape[1]
        step_BTD = self.step(meaning.step_BTF) + self.step_place[:steps]
        horizon_HD = self.horizon if asked.slot_H is None else self.horizon.index_select(0, asked.slot_H)
        start_BHD = horizon_HD + self.near(_near(meaning.step_BTF, asked.step_H))
        query_BQD = (token_BND[:, None, :sensors] + start_BHD.unsqueeze(2)).flatten(1, 2)
        memory_BSD = torch.cat([token_BND, step_BTD], 1)
        known_BHN = self.present(window).unsqueeze(1).expand(-1, slots, -1)
        planned_HT = torch.arange(steps, device=asked.step_H.device) <= asked.step_H.unsqueeze(1)
        allowed_BHS = torch.cat([known_BHN, planned_HT.expand(batch, -1, -1)], -1)
        allowed_B1QS = allowed_BHS.unsqueeze(2).expand(-1, -1, sensors, -1).flatten(1, 2).unsqueeze(1)
        for layer in self.decoder_layers:
            query_BQD = layer(query_BQD, memory_BSD, allowed_B1QS)
        query_BHCD = self.norm(query_BQD).unflatten(1, (slots, sensors))
        said = self.head(
            query_BHCD, window.centre_BC, window.last_BC, meaning.effort_BSG, asked.step_H, window.channels
        )
        return query_BHCD, said

    @property
    def decoder_layers(self) -> Iterable[ReadBlock]:
        """The blocks in which queries read tokens and planned steps."""
        return cast(Iterable[ReadBlock], self.decoder)

    def starts(self, step_RTF: Tensor, asked: AskedHorizons) -> Tensor:
        """Where the query of each row begins (R, D), when every row has a plan of its own."""
        assert asked.slot_H is not None
        upto_RTF = step_RTF.cumsum(1)
        row_R, step_R = torch.arange(len(step_RTF), device=step_RTF.device), asked.step_H
        parts = (step_RTF[row_R, step_R], step_RTF[row_R, (step_R - 1).clamp(min=0)], upto_RTF[row_R, step_R])
        near_RF = torch.cat([*parts[:2], parts[2] / (step_R + 1).unsqueeze(-1)], -1)
        start_RD: Tensor = self.horizon.index_select(0, asked.slot_H) + self.near(near_RF)
        return start_RD

    def present(self, window: SensorWindow) -> Tensor:
        """Which tokens may be read: those of present sensors and of all commands."""
        commands = len(self.commands.quantity_C)
        return torch.cat([window.present_BC, window.present_BC.new_ones(window.present_BC.shape[0], commands)], 1)


def _near(step_BTF: Tensor, step_H: Tensor) -> Tensor:
    """The planned step of each horizon, the one before it and the mean up to it, side by side."""
    upto_BTF = step_BTF.cumsum(1)
    count_H1 = (step_H + 1).unsqueeze(-1)
    parts = (
        step_BTF.index_select(1, step_H),
        step_BTF.index_select(1, (step_H - 1).clamp(min=0)),
        upto_BTF.index_select(1, step_H) / count_H1,
    )
    return torch.cat(parts, -1)


def _perceptron(entering: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(entering, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
