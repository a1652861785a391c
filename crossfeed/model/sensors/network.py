"""Every member's network: tokens of sensors and past commands read each other, queries of sensor and horizon read all.

A sensor's token is its window seen from the window's own level: values, presence, spread, last value. E members or
features of a sensor, B windows, R rows, K context rows, T planned steps, C sensors, A commands, H horizons, F command
features, D width, N = C + A tokens, Q = H * C queries.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crossfeed.model.config import SensorConfig
from crossfeed.model.distribution import Mixture
from crossfeed.model.interface import Rows
from crossfeed.model.parts.blocks import Dropout
from crossfeed.model.sensors.commands import CommandFeatures, PlanFeatures
from crossfeed.model.sensors.head import MixtureHead
from crossfeed.model.sensors.members import (
    ChannelEmbedding,
    MemberAttention,
    MemberLinear,
    member_embedding,
    member_norm,
)
from crossfeed.schema import Schema
from crossfeed.windows.normalise import Normaliser

FAINTEST = 0.01  # spread, in standard deviations of the source, below which differences do not matter


@dataclass(frozen=True, slots=True)
class SensorWindow:
    """What tokens and forecasts are made of; values of absent sensors are 0 and are not to be read."""

    features_BCE: Tensor
    present_BC: Tensor
    centre_BC: Tensor
    last_BC: Tensor
    channels: Tensor | None = None  # which sensors these are, where not all are looked at

    @classmethod
    def of(cls, rows: Rows) -> "SensorWindow":
        """The window that these K rows make."""
        assert rows.level is not None, "a sensor network sees every window from a level"
        (x_BKC, m_BKC), centre_BC = rows.parts, rows.level.centre_BC
        x_BKC = torch.where(m_BKC, x_BKC, centre_BC.unsqueeze(1))
        away_BKC = x_BKC - centre_BC.unsqueeze(1)
        count_BC = m_BKC.sum(1)
        spread_BC = (away_BKC.square().sum(1) / count_BC.clamp(min=1)).sqrt()
        number_K1 = torch.arange(1, m_BKC.shape[1] + 1, device=m_BKC.device).unsqueeze(-1)
        newest_BC = torch.where(m_BKC, number_K1, 1).amax(1) - 1
        # Taken as it was measured: a level that is subtracted and added again leaves its rounding behind.
        last_BC = x_BKC.gather(1, newest_BC.unsqueeze(1)).squeeze(1)
        columns = [
            away_BKC,
            m_BKC.to(away_BKC.dtype),
            *(values.unsqueeze(1) for values in (spread_BC, torch.log(spread_BC + FAINTEST), last_BC - centre_BC)),
        ]
        # In one piece: a product with a turned array is slower, and rounds otherwise where weights are frozen.
        features_BCE = torch.cat(columns, 1).transpose(1, 2).contiguous()
        return cls(features_BCE, count_BC > 0, centre_BC, last_BC)

    def only(self, channels: Tensor) -> "SensorWindow":
        """The window of some of the sensors, as if the machine had no others."""
        parts = (self.features_BCE, self.present_BC, self.centre_BC, self.last_BC)
        features_BCE, present_BC, centre_BC, last_BC = (part.index_select(1, channels) for part in parts)
        return SensorWindow(features_BCE, present_BC, centre_BC, last_BC, channels)


class AskedHorizons(NamedTuple):
    """Which of the trained horizons are asked for, and where their planned steps lie."""

    slot_H: Tensor | None  # None for all of them, in their order
    step_H: Tensor


class ReadBlock(nn.Module):
    """Positions read a memory: attention, then feed-forward, each normed before and added."""

    def __init__(self, config: SensorConfig, expansion: int) -> None:
        super().__init__()
        members, width, hidden = config.members, config.width, expansion * config.width
        self.attention = MemberAttention(members, width, config.heads)
        self.feed_forward = nn.Sequential(
            MemberLinear(members, width, hidden),
            nn.GELU(),
            Dropout(config.dropout),
            MemberLinear(members, hidden, width),
        )
        self.attention_dropout, self.feed_forward_dropout = Dropout(config.dropout), Dropout(config.dropout)

    def forward(self, x_EBLD: Tensor, memory_EBSD: Tensor | None, allowed: Tensor) -> Tensor:
        """Without a memory, positions read each other."""
        seen_EBLD = member_norm(x_EBLD)
        read_EBLD = self.attention(seen_EBLD, seen_EBLD if memory_EBSD is None else memory_EBSD, allowed)
        x_EBLD = x_EBLD + self.attention_dropout(read_EBLD)
        forward_EBLD: Tensor = self.feed_forward_dropout(self.feed_forward(member_norm(x_EBLD)))
        return x_EBLD + forward_EBLD


class SensorNetwork(nn.Module):
    """Encodes a window into tokens and decodes them, under planned commands, into mixtures: every member for itself."""

    def __init__(self, config: SensorConfig, schema: Schema, normaliser: Normaliser, features: CommandFeatures) -> None:
        super().__init__()
        members, width, context, horizons = config.members, config.width, config.context, config.horizons
        self.config = config
        named, quantities = config.identity == "named", config.quantities or ()
        self.sensors = ChannelEmbedding(schema.sensors, quantities, members, width, named)
        self.commands = ChannelEmbedding(schema.commands, quantities, members, width, named)
        self.sensor = _perceptron(members, 2 * context + 3, width)
        self.past = _perceptron(members, 2 * context, width)
        self.step = _perceptron(members, features.count, width)
        self.near = MemberLinear(members, 3 * features.count, width)
        self.step_place = member_embedding(members, horizons[-1], width)
        self.horizon = member_embedding(members, len(horizons), width)
        self.encoder = nn.ModuleList(ReadBlock(config, expansion=4) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(ReadBlock(config, expansion=2) for _ in range(config.decoder_layers))
        self.head = MixtureHead(config, schema, normaliser)

    def encode(self, window: SensorWindow, past_BKA: Tensor) -> Tensor:
        """Tokens (E, B, N, D): one for each sensor and one for each command's past; absent sensors are not read."""
        identity_ECD = self.sensors()
        if window.channels is not None:
            identity_ECD = identity_ECD.index_select(1, window.channels)
        sensor_EBCD = self.sensor(self.for_members(window.features_BCE)) + identity_ECD.unsqueeze(1)
        change_BKA = torch.diff(past_BKA, dim=1, prepend=past_BKA[:, :1])
        past_BAK = torch.cat([past_BKA, change_BKA], 1).transpose(1, 2).contiguous()
        past_EBAD = self.past(self.for_members(past_BAK)) + self.commands().unsqueeze(1)
        token_EBND = torch.cat([sensor_EBCD, past_EBAD], 2)
        allowed_B11N = self.present(window)[:, None, None, :]
        for layer in self.encoder:
            token_EBND = layer(token_EBND, None, allowed_B11N)
        return token_EBND

    def decode(
        self, token_EBND: Tensor, window: SensorWindow, features: PlanFeatures, asked: AskedHorizons
    ) -> tuple[Tensor, Mixture]:
        """Queries (E, B, H, C, D) after they have read everything, and the mixtures they stand for."""
        batch, sensors = window.present_BC.shape
        slots, steps = len(asked.step_H), features.step_BTF.shape[1]
        step_EBTD = self.step(self.for_members(features.step_BTF)) + self.step_place[:, None, :steps]
        horizon_EHD = self.horizon if asked.slot_H is None else self.horizon.index_select(1, asked.slot_H)
        near_BHF = commands_near(features.step_BTF, asked.step_H)
        start_EBHD = horizon_EHD.unsqueeze(1) + self.near(self.for_members(near_BHF))
        query_EBQD = (token_EBND[:, :, None, :sensors] + start_EBHD.unsqueeze(3)).flatten(2, 3)
        memory_EBSD = torch.cat([token_EBND, step_EBTD], 2)
        # A query may read what is present and the planned steps up to its own horizon.
        known_BHN = self.present(window).unsqueeze(1).expand(-1, slots, -1)
        planned_HT = torch.arange(steps, device=asked.step_H.device) <= asked.step_H.unsqueeze(1)
        allowed_BHS = torch.cat([known_BHN, planned_HT.expand(batch, -1, -1)], -1)
        allowed_B1QS = allowed_BHS.unsqueeze(2).expand(-1, -1, sensors, -1).flatten(1, 2).unsqueeze(1)
        for layer in self.decoder:
            query_EBQD = layer(query_EBQD, memory_EBSD, allowed_B1QS)
        query_EBHCD = torch.unflatten(member_norm(query_EBQD), 2, (slots, sensors))
        mixture = self.head(
            query_EBHCD, window.centre_BC, window.last_BC, features.effort_BSG, asked.step_H, window.channels
        )
        return query_EBHCD, mixture

    def for_members(self, x: Tensor) -> Tensor:
        """The same for every member."""
        return x.expand(self.config.members, *x.shape)

    def present(self, window: SensorWindow) -> Tensor:
        """Which tokens may be read: those of present sensors and of all commands."""
        commands = len(self.commands.quantity_C)
        return torch.cat([window.present_BC, window.present_BC.new_ones(window.present_BC.shape[0], commands)], 1)


def commands_near(step_BTF: Tensor, step_H: Tensor) -> Tensor:
    """The planned step of each horizon, the one before it and the mean up to it, side by side."""
    upto_BTF = step_BTF.cumsum(1)
    count_H1 = (step_H + 1).unsqueeze(-1)
    parts = (
        step_BTF.index_select(1, step_H),
        step_BTF.index_select(1, (step_H - 1).clamp(min=0)),
        upto_BTF.index_select(1, step_H) / count_H1,
    )
    return torch.cat(parts, -1)


def _perceptron(members: int, entering: int, width: int) -> nn.Sequential:
    return nn.Sequential(MemberLinear(members, entering, 2 * width), nn.GELU(), MemberLinear(members, 2 * width, width))
