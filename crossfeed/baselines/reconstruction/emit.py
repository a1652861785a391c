"""EMIT style: the rows in which most happens are hidden, and their latents (not only their values) are rebuilt.

B windows, K context rows, C sensors, D width.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, smooth_l1_loss

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.reconstruction.pretext import StepPretextNetwork, hidden_steps, hide
from crossfeed.windows.windows import WindowBatch, present_mean

_RATIO = 0.3
# Latents alone could be rebuilt by making them all alike; the values keep them apart.
_VALUES = 0.5


def event_score(x_BKC: Tensor, m_BKC: Tensor) -> Tensor:
    """How much each row differs from the one before, over channels present in both; the first row never changes."""
    both_BNC = m_BKC[:, 1:] & m_BKC[:, :-1]
    change_BN = (x_BKC.diff(dim=1).abs() * both_BNC).sum(-1) / both_BNC.sum(-1).clamp(min=1)
    return torch.cat([torch.zeros_like(change_BN[:, :1]), change_BN], 1)


class EventAutoencoder(StepPretextNetwork):
    """The latent predictor is used in pretraining only."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        self.predict = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        noise_BK = 1e-6 * torch.rand(batch.x_BKC.shape[:2], generator=generator, device=generator.device)
        # The noise only breaks the ties of windows in which nothing happens.
        score_BK = event_score(batch.x_BKC, batch.m_BKC) + noise_BK
        hidden_BK = hidden_steps(score_BK, max(1, round(_RATIO * score_BK.shape[1])))
        with torch.no_grad():
            target_BKD = layer_norm(self.encoder(batch), (self.rebuild.in_features,))
        steps_BKD = self.encoder(hide(batch, hidden_BK[..., None]))
        predicted_BKD = layer_norm(self.predict(steps_BKD), (self.rebuild.in_features,))
        latent_BK = smooth_l1_loss(predicted_BKD, target_BKD, reduction="none").mean(-1)
        values_BKC = (self.rebuild(steps_BKD) - batch.x_BKC).square()
        values = present_mean(values_BKC, batch.m_BKC & hidden_BK[..., None])
        return present_mean(latent_BK, hidden_BK) + _VALUES * values
