"""DLinear: trend and remainder of each channel, one linear map each, plus linear terms for the commands.

B windows, K context rows, C sensors, H horizons.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, pad

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.network import Network, estimate
from crossfeed.distribution import Distribution
from crossfeed.windows.windows import WindowBatch

_KERNEL = 25


def moving_average(x_BCK: Tensor) -> Tensor:
    """The trend: a centred moving average whose ends repeat the first and last value."""
    reach = (_KERNEL - 1) // 2
    return avg_pool1d(pad(x_BCK, (reach, reach), mode="replicate"), _KERNEL, stride=1)


class DLinear(Network):
    """Everything is linear; the spread is one learned number per horizon and channel."""

    def __init__(self, features: Features) -> None:
        super().__init__()
        shape = features.shape
        self.features = features
        self.trend = nn.Linear(shape.context, shape.slots)
        self.remainder = nn.Linear(shape.context, shape.slots)
        self.past = nn.Linear(shape.context * shape.commands, shape.slots * shape.sensors)
        self.plan = nn.Linear(features.plan_width, shape.sensors) if features.plan_width else None
        self.log_variance_HC = nn.Parameter(torch.zeros(shape.slots, shape.sensors))

    def forward(self, batch: WindowBatch) -> Distribution:
        x_BCK = (batch.x_BKC * batch.m_BKC.to(batch.x_BKC.dtype)).transpose(1, 2)
        trend_BCK = moving_average(x_BCK)
        mean_BHC = (self.trend(trend_BCK) + self.remainder(x_BCK - trend_BCK)).transpose(1, 2)
        mean_BHC = mean_BHC + self.past(batch.a_BKA.flatten(1)).view_as(mean_BHC)
        if self.plan is not None:
            mean_BHC = mean_BHC + self.plan(self.features.plan(batch))
        return estimate(mean_BHC, self.log_variance_HC.expand_as(mean_BHC))
