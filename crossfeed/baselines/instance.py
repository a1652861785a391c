"""Reversible instance normalisation for the baselines, blind to absent entries.

B windows, K context rows, C sensors, V sensors and commands, H horizons.
"""

from dataclasses import replace

import torch
from torch import Tensor

from crossfeed.baselines.network import Network
from crossfeed.distribution import Distribution
from crossfeed.model.parts.instance_norm import InstanceNorm, InstanceNormConfig
from crossfeed.windows.windows import WindowBatch

_WHOLE_WINDOW = InstanceNorm(InstanceNormConfig(kind="pure"))


def window_statistics(x_BKC: Tensor, m_BKC: Tensor) -> tuple[Tensor, Tensor]:
    """Centre and scale of each window and channel over present entries, detached; identity for unseen channels."""
    found = _WHOLE_WINDOW.statistics(x_BKC, m_BKC)
    assert found is not None
    return found.centre_BC.unsqueeze(1), found.scale_BC.unsqueeze(1)


def joint_series(batch: WindowBatch) -> tuple[Tensor, Tensor]:
    """Sensors and commands as channels of one kind, with their presence."""
    x_BKV = torch.cat([batch.x_BKC * batch.m_BKC.to(batch.x_BKC.dtype), batch.a_BKA], dim=-1)
    return x_BKV, torch.cat([batch.m_BKC, torch.ones_like(batch.a_BKA, dtype=torch.bool)], dim=-1)


def normalised(batch: WindowBatch) -> tuple[WindowBatch, Tensor, Tensor]:
    """The batch with its context in instance space, and the statistics that lead back."""
    centre_B1C, scale_B1C = window_statistics(batch.x_BKC, batch.m_BKC)
    x_BKC = (batch.x_BKC - centre_B1C) / scale_B1C * batch.m_BKC.to(batch.x_BKC.dtype)
    return replace(batch, x_BKC=x_BKC), centre_B1C, scale_B1C


class InstanceNormalised(Network):
    """Any network between RevIN and its inverse.

    Only the mean is mapped back; the log-variance is predicted in z-space directly, because scaling it with a window
    that stands still would claim certainty about the start-up that follows.
    """

    def __init__(self, inner: Network) -> None:
        super().__init__()
        self.inner = inner
        self.has_pretext = inner.has_pretext

    def forward(self, batch: WindowBatch) -> Distribution:
        inside, centre_B1C, scale_B1C = normalised(batch)
        forecast: Distribution = self.inner(inside)
        return forecast.with_mean(forecast.mean * scale_B1C + centre_B1C)

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        """What is hidden is rebuilt in instance space."""
        return self.inner.pretext(normalised(batch)[0], generator)
