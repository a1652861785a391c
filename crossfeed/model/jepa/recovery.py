"""Command recovery: from the state and a (detached) future latent back to the mean command between them.

B windows, H horizons, A commands, D latent width.
"""

import torch
from torch import Tensor, nn


class Recovery(nn.Module):
    """The head r_omega of Eq. (9), an inverse-dynamics model on latents."""

    def __init__(self, width: int, commands: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, commands))

    def forward(self, z_BD: Tensor, target_BHD: Tensor) -> Tensor:
        pair_BHD = torch.cat([z_BD.unsqueeze(1).expand_as(target_BHD), target_BHD], -1)
        command_BHA: Tensor = self.layers(pair_BHD)
        return command_BHA
