"""PatchFormer style: patches of several lengths at once; a stretch hidden at the coarsest is hidden and rebuilt at all.

B windows, K context rows, P patches of one length, L patch length, F features, C sensors, D width.
"""

import torch
from torch import Tensor, nn

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.reconstruction.pretext import PretextNetwork, hidden_steps, uniform
from crossfeed.baselines.transformer import encoder_blocks
from crossfeed.errors import ConfigError
from crossfeed.windows.windows import WindowBatch, present_mean

_LENGTHS = (2, 4, 8)
_RATIO = 0.4


class PatchFormer(PretextNetwork):
    """Tokens of all lengths attend to each other; the latest patch of each length forecasts."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width)
        coarsest = _LENGTHS[-1]
        if features.shape.context < coarsest:
            raise ConfigError(
                f"PatchFormer needs a context of at least {coarsest} rows, it has {features.shape.context}.",
                remedy="Use a longer context, or leave patchformer out.",
            )
        self.rows = features.shape.context // coarsest * coarsest
        sensors = features.shape.sensors
        self.enter = nn.ModuleList(nn.Linear(length * features.context_width, width) for length in _LENGTHS)
        self.position = nn.ParameterList(
            nn.Parameter(0.02 * torch.randn(self.rows // length, width)) for length in _LENGTHS
        )
        self.mask_D = nn.Parameter(0.02 * torch.randn(width))
        self.blocks = encoder_blocks(width, layers)
        self.rebuild = nn.ModuleList(nn.Linear(width, length * sensors) for length in _LENGTHS)

    def encode(self, batch: WindowBatch) -> Tensor:
        latest = [part_BPD[:, -1] for part_BPD in self._tokens(batch, None)]
        return torch.stack(latest).mean(0)

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        coarse = self.rows // _LENGTHS[-1]
        score_BP = uniform((len(batch.x_BKC), coarse), generator)
        hidden_BP = hidden_steps(score_BP, max(1, round(_RATIO * coarse)))
        hidden_BK = hidden_BP.repeat_interleave(_LENGTHS[-1], 1)
        x_BKC, m_BKC = batch.x_BKC[:, -self.rows :], batch.m_BKC[:, -self.rows :]
        losses = []
        for part_BPD, rebuild in zip(self._tokens(batch, hidden_BK), self.rebuild, strict=True):
            rebuilt_BKC = rebuild(part_BPD).view_as(x_BKC)
            losses.append(present_mean((rebuilt_BKC - x_BKC).square(), m_BKC & hidden_BK[..., None]))
        return torch.stack(losses).mean()

    def _tokens(self, batch: WindowBatch, hidden_BK: Tensor | None) -> tuple[Tensor, ...]:
        """Encoded tokens of each length; hidden patches enter as the mask token."""
        features_BKF = self.features.context(batch)[:, -self.rows :]
        tokens = []
        for length, enter, position_PD in zip(_LENGTHS, self.enter, self.position, strict=True):
            part_BPD = enter(torch.unflatten(features_BKF, 1, (-1, length)).flatten(2))
            if hidden_BK is not None:
                part_BPD = torch.where(hidden_BK[:, ::length, None], self.mask_D, part_BPD)
            tokens.append(part_BPD + position_PD)
        encoded: Tensor = self.blocks(torch.cat(tokens, 1))
        return torch.split(encoded, [self.rows // length for length in _LENGTHS], dim=1)
