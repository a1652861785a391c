"""The one input convention of the neural baselines: values, presence flags, past commands and the command plan.

B windows, K context rows, C sensors, A commands, H horizons, T longest horizon, F context features, G plan features.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from crossfeed.windows.windows import WindowBatch, WindowSet


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a window is."""

    context: int
    sensors: int
    commands: int
    horizons: tuple[int, ...]

    @classmethod
    def of(cls, windows: WindowSet) -> Self:
        """The shape of these windows."""
        return cls(windows.context, windows.x_NC.shape[1], windows.a_NA.shape[1], windows.horizons)

    @property
    def steps(self) -> int:
        """The longest horizon: so many steps of planned commands are known."""
        return max(self.horizons)

    @property
    def slots(self) -> int:
        return len(self.horizons)


@dataclass(frozen=True, slots=True)
class NetworkInputs:
    """What a baseline is allowed to see beside sensor values and past commands; each can be switched off."""

    presence: bool = True
    plan: bool = True


class Features(nn.Module):
    """Turns a batch into the tensors a network reads; what is switched off is never touched."""

    horizon_H: Tensor  # the steps of the plan that are horizons
    until_h_HT: Tensor

    def __init__(self, shape: Shape, inputs: NetworkInputs) -> None:
        super().__init__()
        self.shape, self.inputs = shape, inputs
        self.context_width = shape.sensors * (1 + inputs.presence) + shape.commands
        self.plan_width = shape.commands * (1 + shape.steps) if inputs.plan else 0
        horizon_H = torch.tensor(shape.horizons) - 1
        until_h_HT = torch.arange(shape.steps) <= horizon_H[:, None]
        self.register_buffer("horizon_H", horizon_H, persistent=False)
        self.register_buffer("until_h_HT", until_h_HT.float(), persistent=False)

    def context(self, batch: WindowBatch) -> Tensor:
        """Values with zeros where absent, presence flags and past commands, as one (B, K, F) tensor."""
        m_BKC = batch.m_BKC.to(batch.x_BKC.dtype)
        presence = [m_BKC] if self.inputs.presence else []
        return torch.cat([batch.x_BKC * m_BKC, *presence, batch.a_BKA], dim=-1)

    def plan(self, batch: WindowBatch) -> Tensor:
        """The planned commands as horizon h may know them (nothing after t+h), as one (B, H, G) tensor."""
        if not self.inputs.plan:
            return batch.x_BKC.new_zeros(len(batch.x_BKC), self.shape.slots, 0)
        steps_BHTA = batch.future_a_BTA[:, None] * self.until_h_HT[None, :, :, None]
        return torch.cat([steps_BHTA.flatten(2), batch.mean_a_BHA], dim=-1)
