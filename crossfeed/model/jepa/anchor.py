"""The level of a window, seen from the physical zero: what a drive that stops goes back to, on every machine.

A network that reads centred rows cannot know how far away zero is, so it cannot say that a current will vanish. It can
say by which factor the level will change, and planned commands tell most of that: half the speed, no spindle. The
factor means the same on machines whose levels differ.

B windows, H horizons, C sensors, D latent width.
"""

import numpy as np
import torch
from torch import Tensor, nn

from crossfeed.windows.normalise import Normaliser


class _FromZero(nn.Linear):
    """Begins at zero and draws no random number, so that a model starts like one without an anchor."""

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


class Anchor(nn.Module):
    """Moves a forecast along the line from the window's level to zero: by -1 times their distance (gone) up to +1.

    Only for sensors whose zero lies within `reach` standard deviations of the source's mean. For a temperature or a
    voltage that is never off, zero is no state of the machine.
    """

    zero_C: Tensor
    reached_C: Tensor

    def __init__(self, width: int, normaliser: Normaliser, reach: float) -> None:
        super().__init__()
        self.change = _FromZero(width, len(normaliser.sensor_names))
        zero_C = normaliser.sensor_zero
        reached_C = np.isfinite(zero_C) & (np.abs(zero_C) <= reach)
        self.register_buffer("reached_C", torch.from_numpy(reached_C), persistent=False)
        self.register_buffer("zero_C", torch.from_numpy(np.where(reached_C, zero_C, 0.0)).float(), persistent=False)

    def forward(self, latent_BHD: Tensor, level_BC: Tensor) -> Tensor:
        """What to add to the mean, in global z-space."""
        with torch.autocast(latent_BHD.device.type, enabled=False):
            share_BHC = torch.tanh(self.change(latent_BHD.float()))
        distance_BC = torch.where(self.reached_C, level_BC - self.zero_C, 0.0)
        return share_BHC * distance_BC.unsqueeze(1)
