"""What the six share: an encoder that first rebuilds what was hidden from it, then forecasts.

B windows, K context rows, C sensors, D width.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.network import EncodingNetwork, HorizonDecoder
from crossfeed.baselines.transformer import StepEncoder
from crossfeed.windows.windows import WindowBatch


class PretextNetwork(EncodingNetwork):
    """Stage one minimises `pretext`; stage two trains encoder and forecasting decoder end to end."""

    has_pretext = True

    def __init__(self, features: Features, width: int) -> None:
        super().__init__()
        self.features = features
        self.decoder = HorizonDecoder(features, width)


class StepPretextNetwork(PretextNetwork):
    """A pretext over row tokens: the last row of the encoder forecasts, a linear map rebuilds rows."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width)
        self.encoder = StepEncoder(features, width, layers)
        self.rebuild = nn.Linear(width, features.shape.sensors)

    def encode(self, batch: WindowBatch) -> Tensor:
        last_BD: Tensor = self.encoder(batch)[:, -1]
        return last_BD


def hide(batch: WindowBatch, hidden_BKC: Tensor) -> WindowBatch:
    """The batch without these entries: absent, as on a machine that does not have them."""
    m_BKC = batch.m_BKC & ~hidden_BKC
    return replace(batch, x_BKC=batch.x_BKC * m_BKC.to(batch.x_BKC.dtype), m_BKC=m_BKC)


def uniform(size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Random numbers in [0, 1) on the generator's device."""
    return torch.rand(size, generator=generator, device=generator.device)


def hidden_steps(score_BK: Tensor, count: int) -> Tensor:
    """The `count` rows of highest score in each window, as a mask."""
    chosen_BN = score_BK.topk(count, dim=1).indices
    return torch.zeros_like(score_BK, dtype=torch.bool).scatter(1, chosen_BN, True)
