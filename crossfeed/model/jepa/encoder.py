"""Schema-adaptive encoder (Section 4.1): any subset of the channels in, one latent state out; and its slow teacher.

B windows, K rows, H horizons, C sensors, A commands, D latent width.
"""

import copy
from collections.abc import Iterable
from typing import Literal, Self, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from crossfeed.configuration import CheckedForm
from crossfeed.model.parts.blocks import Block, BlockConfig, embedding


class EncoderConfig(CheckedForm):
    """Depth of the two passes, size of the time table, and what stands for a row without any measurement."""

    channel_layers: int = Field(default=2, ge=1)
    temporal_layers: int = Field(default=6, ge=1)
    positions: int = Field(default=512, ge=1)
    empty_row: Literal["zero", "first_channel"] = "zero"


class RowEncoder(nn.Module):
    """First pass, within one row: a transformer over the tokens of the present channels, then their mean."""

    def __init__(self, config: EncoderConfig, blocks: BlockConfig, sensors: int) -> None:
        super().__init__()
        self.empty_row = config.empty_row
        self.value = nn.Sequential(nn.Linear(1, blocks.width), nn.GELU(), nn.Linear(blocks.width, blocks.width))
        self.channel = embedding(sensors, blocks.width)
        self.layers = nn.ModuleList(Block(blocks) for _ in range(config.channel_layers))

    def forward(self, x_RC: Tensor, m_RC: Tensor, channels: Tensor | None = None) -> Tensor:
        """One vector per row; the value of an absent channel is never read.

        `channels` says which channels the columns are, when channels that are absent everywhere were left out.
        """
        x_RC, m_RC = torch.where(m_RC, x_RC, 0.0), self.read(m_RC)
        token_RCD = self.value(x_RC.unsqueeze(-1)) + (self.channel if channels is None else self.channel[channels])
        allowed_R11C = m_RC[:, None, None, :]
        *layers, last = cast(Iterable[Block], self.layers)
        for layer in layers:
            token_RCD = layer(token_RCD, allowed_R11C)
        weight_RC = m_RC / m_RC.sum(-1, keepdim=True).clamp(min=1)
        if last.commutes:
            return last.mean(token_RCD, allowed_R11C, weight_RC)
        token_RCD = last(token_RCD, allowed_R11C)
        mean_R1D: Tensor = weight_RC.to(token_RCD.dtype).unsqueeze(1) @ token_RCD
        return mean_R1D.squeeze(1)

    def read(self, m_RC: Tensor) -> Tensor:
        """Which tokens are read: those of present channels and, if so configured, one for a row without any."""
        if self.empty_row == "zero":
            return m_RC
        first_C = torch.arange(m_RC.shape[-1], device=m_RC.device) == 0
        return m_RC | (first_C & ~m_RC.any(-1, keepdim=True))


class Encoder(nn.Module):
    """Both passes: rows become vectors, commands and time are added, a temporal transformer reads the sequence."""

    def __init__(self, config: EncoderConfig, blocks: BlockConfig, sensors: int, commands: int) -> None:
        super().__init__()
        self.row = RowEncoder(config, blocks, sensors)
        self.command = nn.Linear(commands, blocks.width)
        self.time = embedding(config.positions, blocks.width)
        self.layers = nn.ModuleList(Block(blocks) for _ in range(config.temporal_layers))
        self.norm = nn.LayerNorm(blocks.width)

    def forward(self, x_BKC: Tensor, m_BKC: Tensor, a_BKA: Tensor, position_K: Tensor | None = None) -> Tensor:
        return self.sequence(self.rows(x_BKC, m_BKC), a_BKA, position_K)

    def rows(self, x_BKC: Tensor, m_BKC: Tensor, channels: Tensor | None = None) -> Tensor:
        """The first pass for all rows at once; depends on nothing but the row itself, so it can be kept."""
        row_RD: Tensor = self.row(x_BKC.flatten(0, 1), m_BKC.flatten(0, 1), channels)
        return row_RD.view(*x_BKC.shape[:2], -1)

    def sequence(self, row_BKD: Tensor, a_BKA: Tensor, position_K: Tensor | None = None) -> Tensor:
        """The second pass, of which the last row is the state; rows stand at positions 0..K-1 unless told otherwise."""
        time_KD = self.time[: row_BKD.shape[1]] if position_K is None else self.time[position_K]
        step_BKD = row_BKD + self.command(a_BKA) + time_KD
        for layer in self.layers:
            step_BKD = layer(step_BKD)
        normed_BKD: Tensor = self.norm(step_BKD)
        return normed_BKD

    def state(self, row_BKD: Tensor, a_BKA: Tensor) -> Tensor:
        """The state at the last row alone, which is all a forecast needs."""
        step_BKD = row_BKD + self.command(a_BKA) + self.time[: row_BKD.shape[1]]
        *layers, last = cast(Iterable[Block], self.layers)
        for layer in layers:
            step_BKD = layer(step_BKD)
        z_BD: Tensor = self.norm(last.last(step_BKD))
        return z_BD


class TargetConfig(CheckedForm):
    """Whether the teacher keeps dropout while training, and where its rows stand in time.

    positions 'horizon': the row at t+h stands at position h, its true distance; 'slot': rows stand at 0, 1, 2, ...
    """

    dropout: bool = False
    positions: Literal["horizon", "slot"] = "horizon"


class TargetEncoder(nn.Module):
    """Encodes the target rows jointly, with zero commands, under stop-gradient."""

    position_H: Tensor

    def __init__(self, config: TargetConfig, student: Encoder, horizons: tuple[int, ...]) -> None:
        super().__init__()
        self.config = config
        self.encoder = copy.deepcopy(student).requires_grad_(False)
        places = horizons if config.positions == "horizon" else range(len(horizons))
        self.register_buffer("position_H", torch.tensor(tuple(places)), persistent=False)
        self.train(False)

    def train(self, mode: bool = True) -> Self:
        """A teacher without dropout cannot be put in train mode."""
        return super().train(mode and self.config.dropout)

    @torch.no_grad()
    def forward(self, x_BHC: Tensor, m_BHC: Tensor, commands: int) -> Tensor:
        zero_BHA = x_BHC.new_zeros(*x_BHC.shape[:2], commands)
        latent_BHD: Tensor = self.encoder(x_BHC, m_BHC, zero_BHA, self.position_H)
        return latent_BHD

    @torch.no_grad()
    def update(self, student: Encoder, momentum: float | Tensor) -> None:
        """Eq. (4), in place: teacher <- momentum * teacher + (1 - momentum) * student."""
        slow: list[Tensor] = list(self.encoder.parameters())
        fast: list[Tensor] = list(student.parameters())
        rate = torch.as_tensor(momentum, dtype=slow[0].dtype, device=slow[0].device)
        torch._foreach_mul_(slow, rate)
        torch._foreach_add_(slow, list(torch._foreach_mul(fast, 1.0 - rate)))
