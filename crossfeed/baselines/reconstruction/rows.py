"""Whole rows are hidden and rebuilt: at random (MAE style), in short stretches (LoMaR), where most happens (EMIT).

B windows, K context rows, N visible rows, S stretches, L rows of a stretch, C sensors, D width.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, smooth_l1_loss

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.reconstruction.pretext import StepPretextNetwork, hidden_steps, hide, uniform
from crossfeed.baselines.transformer import encoder_blocks
from crossfeed.windows.windows import WindowBatch, present_mean

_RANDOM_RATIO = 0.75
_STRETCHES, _LENGTH, _STRETCH_RATIO = 4, 10, 0.8
_EVENT_RATIO = 0.3
# Latents alone could be rebuilt by making them all alike; the values keep them apart.
_VALUES = 0.5


class MaskedAutoencoder(StepPretextNetwork):
    """Three quarters of the rows are taken away, the encoder sees only the rest, a light decoder rebuilds them.

    The decoder with its mask token is used in pretraining only.
    """

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        self.mask_D = nn.Parameter(0.02 * torch.randn(width))
        self.position_KD = nn.Parameter(0.02 * torch.randn(features.shape.context, width))
        self.light = encoder_blocks(width, 1, dropout=0.0)

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        windows, rows = batch.x_BKC.shape[:2]
        visible = max(1, round((1.0 - _RANDOM_RATIO) * rows))
        order_BK = uniform((windows, rows), generator).argsort(1)
        seen_BN1 = order_BK[:, :visible, None]
        tokens_BKD = self.encoder.tokens(batch)
        width = tokens_BKD.shape[-1]
        encoded_BND = self.encoder.blocks(tokens_BKD.gather(1, seen_BN1.expand(-1, -1, width)))
        all_BKD = self.mask_D.expand(windows, rows, -1).scatter(1, seen_BN1.expand(-1, -1, width), encoded_BND)
        rebuilt_BKC = self.rebuild(self.light(all_BKD + self.position_KD))
        hidden_BK1 = torch.ones_like(order_BK, dtype=torch.bool).scatter(1, seen_BN1.squeeze(-1), False)[..., None]
        return present_mean((rebuilt_BKC - batch.x_BKC).square(), batch.m_BKC & hidden_BK1)


class LocalAutoencoder(StepPretextNetwork):
    """Most rows of short stretches are hidden, and rebuilt from that stretch alone.

    Attention never leaves a stretch in pretraining; in fine-tuning it spans the whole context.
    """

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
        hidden = min(self.length - 1, max(1, round(_STRETCH_RATIO * self.length)))
        hidden_NL1 = hidden_steps(score_NL, hidden)[..., None]
        # Positions count from the end of the stretch, so that they mean "how long ago", as in the whole context.
        tokens = torch.where(hidden_NL1, self.mask_D, tokens) + encoder.position_KD[-self.length :]
        rebuilt_NLC = self.rebuild(encoder.blocks(tokens))
        present_NLC = stretches(batch.m_BKC.float()) > 0
        return present_mean((rebuilt_NLC - stretches(batch.x_BKC)).square(), present_NLC & hidden_NL1)


def event_score(x_BKC: Tensor, m_BKC: Tensor) -> Tensor:
    """How much each row differs from the one before, over channels present in both; the first row never changes."""
    both_BNC = m_BKC[:, 1:] & m_BKC[:, :-1]
    change_BN = (x_BKC.diff(dim=1).abs() * both_BNC).sum(-1) / both_BNC.sum(-1).clamp(min=1)
    return torch.cat([torch.zeros_like(change_BN[:, :1]), change_BN], 1)


class EventAutoencoder(StepPretextNetwork):
    """The rows in which most happens are hidden, and their latents (not only their values) are rebuilt.

    The latent predictor is used in pretraining only.
    """

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        self.predict = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        noise_BK = 1e-6 * torch.rand(batch.x_BKC.shape[:2], generator=generator, device=generator.device)
        # The noise only breaks the ties of windows in which nothing happens.
        score_BK = event_score(batch.x_BKC, batch.m_BKC) + noise_BK
        hidden_BK = hidden_steps(score_BK, max(1, round(_EVENT_RATIO * score_BK.shape[1])))
        with torch.no_grad():
            target_BKD = layer_norm(self.encoder(batch), (self.rebuild.in_features,))
        steps_BKD = self.encoder(hide(batch, hidden_BK[..., None]))
        predicted_BKD = layer_norm(self.predict(steps_BKD), (self.rebuild.in_features,))
        latent_BK = smooth_l1_loss(predicted_BKD, target_BKD, reduction="none").mean(-1)
        values_BKC = (self.rebuild(steps_BKD) - batch.x_BKC).square()
        values = present_mean(values_BKC, batch.m_BKC & hidden_BK[..., None])
        return present_mean(latent_BK, hidden_BK) + _VALUES * values
