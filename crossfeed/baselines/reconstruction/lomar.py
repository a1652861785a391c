"""LoMaR style: short stretches of the window, most rows of each hidden and rebuilt from that stretch alone.

B windows, K context rows, S stretches, L rows of a stretch, C sensors, D width.
"""

import torch
from torch import Tensor, nn

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.reconstruction.pretext import StepPretextNetwork, hidden_steps, uniform
from crossfeed.windows.windows import WindowBatch, present_mean

_STRETCHES, _LENGTH, _RATIO = 4, 10, 0.8


class LocalAutoencoder(StepPretextNetwork):
    """Attention never leaves a stretch in pretraining; in fine-tuning it spans the whole context."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        self.mask_D = nn.Parameter(0.02 * torch.randn(width))
        self.length = min(_LENGTH, features.shape.context)

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        windows, rows, _ = batch.x_BKC.shape
        start_BS = (uniform((windows, _STRETCHES), generator) * (rows - self.length + 1)).long()
        row_BN = (start_BS[..., None] + torch.arange(self.length, device=start_BS.device)).flatten(1)

        def stretches(values_BKX: Tensor) -> Tensor:
            taken = values_BKX.gather(1, row_BN[..., None].expand(-1, -1, values_BKX.shape[-1]))
            return torch.unflatten(taken, 1, (_STRETCHES, self.length)).flatten(0, 1)

        encoder = self.encoder
        tokens = stretches(encoder.token(self.features.context(batch)))
        score_NL = uniform((windows * _STRETCHES, self.length), generator)
        hidden_NL1 = hidden_steps(score_NL, min(self.length - 1, max(1, round(_RATIO * self.length))))[..., None]
        # Positions count from the end of the stretch, so that they mean "how long ago", as in the whole context.
        tokens = torch.where(hidden_NL1, self.mask_D, tokens) + encoder.position_KD[-self.length :]
        rebuilt_NLC = self.rebuild(encoder.blocks(tokens))
        present_NLC = stretches(batch.m_BKC.float()) > 0
        return present_mean((rebuilt_NLC - stretches(batch.x_BKC)).square(), present_NLC & hidden_NL1)
