"""What makes machines differ, done to windows: other gains, other levels, other noise.

Nothing in the logs of one machine says which of its numbers are its own. So each sensor of each window is shown as
another machine might show it, and the error is counted in the original's units.

B windows, K context rows, H horizons, C sensors.
"""

import math
from dataclasses import replace

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from crossfeed.configuration import CheckedForm
from crossfeed.windows.corrupt import Draw
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch

REACH = 4.0  # a gain acts from the physical zero where that lies within so many standard deviations of the mean


class MachineChanges(CheckedForm):
    """How strongly sensors are changed, each window and sensor by chance; zeros change nothing.

    gain: standard deviation of the logarithm of a factor. level: standard deviation of a constant, in z-units.
    noise: largest standard deviation of what is added to every row of the context, in z-units. commands: standard
    deviation of the logarithm of a factor on each command, seen from standing still.
    """

    gain: float = Field(default=0.0, ge=0.0, le=2.0)
    level: float = Field(default=0.0, ge=0.0, le=10.0)
    noise: float = Field(default=0.0, ge=0.0, le=1.0)
    commands: float = Field(default=0.0, ge=0.0, le=2.0)

    @property
    def active(self) -> bool:
        """Whether anything is changed at all."""
        return any((self.gain, self.level, self.noise, self.commands))


class MachineAugmentation:
    """Shows windows as other machines might; the physical zeros come from the normaliser."""

    def __init__(self, config: MachineChanges, normaliser: Normaliser, device: torch.device | str) -> None:
        self.config = config
        self._zero_C, self._reached_C = (torch.from_numpy(part).to(device) for part in normaliser.zero_within(REACH))
        self._zero_A = torch.from_numpy(normaliser.command_zero.astype(np.float32)).to(device)

    def __call__(self, batch: WindowBatch, draw: Draw) -> tuple[WindowBatch, Tensor]:
        """The changed windows, context and targets alike, and the gain (B, 1, C) in which errors are to be counted."""
        x_BKC, m_BKC, config = batch.x_BKC, batch.m_BKC, self.config
        shape = (len(x_BKC), 1, x_BKC.shape[2])
        gain_B1C = torch.exp(config.gain * _normal(draw, shape))
        mean_B1C = torch.where(m_BKC, x_BKC, 0.0).sum(1, keepdim=True) / m_BKC.sum(1, keepdim=True).clamp(min=1)
        from_B1C = torch.where(self._reached_C, self._zero_C, mean_B1C)
        shift_B1C = from_B1C * (1.0 - gain_B1C) + config.level * _normal(draw, shape)
        noise_BKC = config.noise * gain_B1C * draw(shape).square() * _normal(draw, tuple(x_BKC.shape))
        changed = replace(
            batch,
            x_BKC=torch.where(m_BKC, gain_B1C * x_BKC + shift_B1C + noise_BKC, 0.0),
            future_x_BHC=torch.where(batch.future_m_BHC, gain_B1C * batch.future_x_BHC + shift_B1C, 0.0),
        )
        return (self._otherwise_driven(changed, draw) if config.commands else changed), gain_B1C

    def _otherwise_driven(self, batch: WindowBatch, draw: Draw) -> WindowBatch:
        """The windows of a machine whose commands have other sizes for the same effect."""
        factor_B1A = torch.exp(self.config.commands * _normal(draw, (len(batch.a_BKA), 1, batch.a_BKA.shape[2])))

        def scaled(a_BSA: Tensor) -> Tensor:
            return self._zero_A + factor_B1A * (a_BSA - self._zero_A)

        return replace(
            batch,
            a_BKA=scaled(batch.a_BKA),
            mean_a_BHA=scaled(batch.mean_a_BHA),
            future_a_BTA=scaled(batch.future_a_BTA),
        )


def _normal(draw: Draw, shape: tuple[int, ...]) -> Tensor:
    """Standard normal numbers from uniform ones, two of which make one."""
    radius = torch.sqrt(-2.0 * torch.log1p(-draw(shape)))
    return radius * torch.cos(2.0 * math.pi * draw(shape))
