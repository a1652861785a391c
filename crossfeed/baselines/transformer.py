"""A plain transformer over the context rows (6 layers in the paper); the last row forecasts.

B windows, K context rows, D width.
"""

import torch
from torch import Tensor, nn

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.network import DROPOUT, EncodingNetwork, HorizonDecoder
from crossfeed.windows.windows import WindowBatch


def encoder_blocks(width: int, layers: int, dropout: float = DROPOUT) -> nn.TransformerEncoder:
    """Pre-norm transformer blocks with GELU, heads of 32 (at least two) and a feed-forward four times as wide."""
    block = nn.TransformerEncoderLayer(
        width, max(2, width // 32), 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(block, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)


class StepEncoder(nn.Module):
    """One token per context row, learned positions, transformer blocks."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__()
        self.features = features
        self.token = nn.Linear(features.context_width, width)
        self.position_KD = nn.Parameter(0.02 * torch.randn(features.shape.context, width))
        self.blocks = encoder_blocks(width, layers)

    def tokens(self, batch: WindowBatch) -> Tensor:
        """Row tokens with their positions, before any attention."""
        tokens_BKD: Tensor = self.token(self.features.context(batch)) + self.position_KD
        return tokens_BKD

    def forward(self, batch: WindowBatch) -> Tensor:
        steps_BKD: Tensor = self.blocks(self.tokens(batch))
        return steps_BKD


class Transformer(EncodingNetwork):
    """The row encoder with the shared forecasting decoder."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__()
        self.encoder = StepEncoder(features, width, layers)
        self.decoder = HorizonDecoder(features, width)

    def encode(self, batch: WindowBatch) -> Tensor:
        last_BD: Tensor = self.encoder(batch)[:, -1]
        return last_BD
