"""The EMA teacher: a slow copy of the encoder that embeds the future rows; no gradient ever enters it.

B windows, H horizons, C sensors, A commands, D latent width.
"""

import copy
from typing import Literal, Self

import torch
from torch import Tensor, nn

from crossfeed.configuration import CheckedForm
from crossfeed.model.jepa.encoder import Encoder


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
