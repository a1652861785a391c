"""TSMixer: blocks that mix along time and along channels in turn (4 blocks in the paper), with a command plan.

B windows, K context rows, F features, H horizons.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.network import DROPOUT, Network, estimate
from crossfeed.distribution import Distribution
from crossfeed.windows.windows import WindowBatch


class FeatureMixing(nn.Module):
    """A residual two-layer perceptron over the features of one row."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.enter, self.leave = nn.Linear(features, hidden), nn.Linear(hidden, features)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x_BKF: Tensor) -> Tensor:
        hidden = self.dropout(relu(self.enter(self.norm(x_BKF))))
        mixed_BKF: Tensor = x_BKF + self.dropout(self.leave(hidden))
        return mixed_BKF


class MixerBlock(nn.Module):
    """Time mixing shared by all features, then feature mixing shared by all rows."""

    def __init__(self, context: int, features: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.time = nn.Linear(context, context)
        self.dropout = nn.Dropout(DROPOUT)
        self.mix_features = FeatureMixing(features, hidden)

    def forward(self, x_BKF: Tensor) -> Tensor:
        mixed_BFK = self.dropout(relu(self.time(self.norm(x_BKF).transpose(1, 2))))
        out_BKF: Tensor = self.mix_features(x_BKF + mixed_BFK.transpose(1, 2))
        return out_BKF


class TsMixer(Network):
    """Mixer blocks over the context, a map from rows to horizons, and one mixing with the plan of each horizon."""

    def __init__(self, features: Features, width: int, blocks: int) -> None:
        super().__init__()
        shape = features.shape
        self.features = features
        self.enter = nn.Linear(features.context_width, width)
        self.blocks = nn.Sequential(*(MixerBlock(shape.context, width, 2 * width) for _ in range(blocks)))
        self.horizons = nn.Linear(shape.context, shape.slots)
        self.join = nn.Linear(width + features.plan_width, width)
        self.mix = FeatureMixing(width, 2 * width)
        self.mean, self.log_variance = nn.Linear(width, shape.sensors), nn.Linear(width, shape.sensors)

    def forward(self, batch: WindowBatch) -> Distribution:
        mixed_BKF = self.blocks(self.enter(self.features.context(batch)))
        slots_BHF = self.horizons(mixed_BKF.transpose(1, 2)).transpose(1, 2)
        slots_BHF = self.mix(self.join(torch.cat([slots_BHF, self.features.plan(batch)], dim=-1)))
        return estimate(self.mean(slots_BHF), self.log_variance(slots_BHF))
