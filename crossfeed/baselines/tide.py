"""TiDE: a dense encoder and decoder per channel, with covariates compressed row by row and handed to every horizon.

B windows, K context rows, C sensors, A commands, T longest horizon, H horizons, R compressed covariate, D width.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.network import DROPOUT, Network, estimate
from crossfeed.distribution import Distribution
from crossfeed.windows.windows import WindowBatch

_COVARIATE, _STEP = 4, 16


class ResidualBlock(nn.Module):
    """A two-layer perceptron beside a linear skip, then a norm."""

    def __init__(self, enter: int, hidden: int, leave: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(enter, hidden), nn.Linear(hidden, leave)
        self.skip = nn.Linear(enter, leave)
        self.dropout, self.norm = nn.Dropout(DROPOUT), nn.LayerNorm(leave)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.skip(x) + self.dropout(self.second(relu(self.first(x)))))
        return out


class Tide(Network):
    """One network for all channels; a learned vector tells them apart."""

    def __init__(self, features: Features, width: int) -> None:
        super().__init__()
        shape, inputs = features.shape, features.inputs
        self.features = features
        rows = shape.context + shape.steps * inputs.plan
        self.covariate = ResidualBlock(shape.commands, width, _COVARIATE)
        self.channel_CD = nn.Parameter(0.02 * torch.randn(shape.sensors, width))
        series = shape.context * (1 + inputs.presence)
        self.encoder = nn.Sequential(
            ResidualBlock(series + rows * _COVARIATE + width, width, width),
            ResidualBlock(width, width, width),
        )
        self.decoder = ResidualBlock(width, width, shape.slots * _STEP)
        highway = _STEP + _COVARIATE * inputs.plan
        self.step = ResidualBlock(highway, width, width)
        self.mean, self.log_variance = nn.Linear(width, 1), nn.Linear(width, 1)
        self.skip = nn.Linear(shape.context, shape.slots)

    def forward(self, batch: WindowBatch) -> Distribution:
        m_BCK = batch.m_BKC.to(batch.x_BKC.dtype).transpose(1, 2)
        x_BCK = batch.x_BKC.transpose(1, 2) * m_BCK
        windows, sensors = x_BCK.shape[:2]
        parts = [x_BCK, self.channel_CD.expand(windows, -1, -1)]
        if self.features.inputs.presence:
            parts.append(m_BCK)
        parts.append(self.covariate(batch.a_BKA).flatten(1)[:, None].expand(-1, sensors, -1))
        future_BTR = self.covariate(batch.future_a_BTA) if self.features.inputs.plan else None
        if future_BTR is not None:
            parts.append(future_BTR.flatten(1)[:, None].expand(-1, sensors, -1))
        steps_BCHS = self.decoder(self.encoder(torch.cat(parts, dim=-1))).unflatten(
            -1, (self.features.shape.slots, _STEP)
        )
        if future_BTR is not None:
            future_BHR = future_BTR[:, self.features.horizon_H]
            steps_BCHS = torch.cat([steps_BCHS, future_BHR[:, None].expand(-1, sensors, -1, -1)], dim=-1)
        hidden_BCHD = self.step(steps_BCHS)
        mean_BCH = self.mean(hidden_BCHD).squeeze(-1) + self.skip(x_BCK)
        log_variance_BCH = self.log_variance(hidden_BCHD).squeeze(-1)
        return estimate(mean_BCH.transpose(1, 2), log_variance_BCH.transpose(1, 2))
