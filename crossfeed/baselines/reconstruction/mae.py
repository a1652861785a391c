"""MAE style: three quarters of the rows are taken away, the encoder sees only the rest, a light decoder rebuilds them.

B windows, K context rows, N visible rows, D width.
"""

import torch
from torch import Tensor, nn

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.reconstruction.pretext import StepPretextNetwork, uniform
from crossfeed.baselines.transformer import encoder_blocks
from crossfeed.windows.windows import WindowBatch, present_mean

_RATIO = 0.75


class MaskedAutoencoder(StepPretextNetwork):
    """The decoder with its mask token is used in pretraining only."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        self.mask_D = nn.Parameter(0.02 * torch.randn(width))
        self.position_KD = nn.Parameter(0.02 * torch.randn(features.shape.context, width))
        self.light = encoder_blocks(width, 1, dropout=0.0)

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        windows, rows = batch.x_BKC.shape[:2]
        visible = max(1, round((1.0 - _RATIO) * rows))
        order_BK = uniform((windows, rows), generator).argsort(1)
        seen_BN1 = order_BK[:, :visible, None]
        tokens_BKD = self.encoder.tokens(batch)
        width = tokens_BKD.shape[-1]
        encoded_BND = self.encoder.blocks(tokens_BKD.gather(1, seen_BN1.expand(-1, -1, width)))
        all_BKD = self.mask_D.expand(windows, rows, -1).scatter(1, seen_BN1.expand(-1, -1, width), encoded_BND)
        rebuilt_BKC = self.rebuild(self.light(all_BKD + self.position_KD))
        hidden_BK1 = torch.ones_like(order_BK, dtype=torch.bool).scatter(1, seen_BN1.squeeze(-1), False)[..., None]
        return present_mean((rebuilt_BKC - batch.x_BKC).square(), batch.m_BKC & hidden_BK1)
