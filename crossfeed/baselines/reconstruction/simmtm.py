"""SimMTM style: a window is rebuilt from its masked neighbours, weighted by how alike their series vectors are.

Half of the entries are hidden in runs of geometric length; the loss also pulls the views of one window together.
B windows, V views, N = B * (1 + V) series, K context rows, C sensors, D width.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, normalize, softmax

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.reconstruction.pretext import StepPretextNetwork, hide, uniform
from crossfeed.windows.windows import WindowBatch, present_mean

_VIEWS, _RATIO, _MEAN_RUN = 2, 0.5, 3.0
_TEMPERATURE, _CONTRAST = 0.1, 0.1


def geometric_runs(size: tuple[int, int, int], generator: torch.Generator) -> Tensor:
    """Hidden runs of geometric length (mean 3) that hide half of each channel: a two-state chain along time."""
    windows, rows, sensors = size
    leave_hidden = 1.0 / _MEAN_RUN
    leave_seen = leave_hidden * _RATIO / (1.0 - _RATIO)
    draw_KBC = uniform((rows, windows, sensors), generator)
    states = [draw_KBC[0] < _RATIO]
    for row in range(1, rows):
        change_BC = draw_KBC[row] < torch.where(states[-1], leave_hidden, leave_seen)
        states.append(states[-1] ^ change_BC)
    return torch.stack(states, 1)


class SimMtm(StepPretextNetwork):
    """The projector of the series vectors is used in pretraining only."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        self.project = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        windows, rows, sensors = batch.x_BKC.shape
        views = [hide(batch, geometric_runs((windows, rows, sensors), generator)) for _ in range(_VIEWS)]
        steps_NKD = torch.cat([self.encoder(view) for view in (batch, *views)])
        series_ND = normalize(self.project(steps_NKD.mean(1)), dim=-1)
        itself_NN = torch.eye(len(series_ND), dtype=torch.bool, device=series_ND.device)
        alike_NN = (series_ND @ series_ND.T / _TEMPERATURE).masked_fill(itself_NN, -torch.inf)
        weight_BN = softmax(alike_NN[:windows], dim=-1)
        rebuilt_BKC = self.rebuild(torch.einsum("bn,nkd->bkd", weight_BN, steps_NKD))
        window_N = torch.arange(windows, device=series_ND.device).repeat(1 + _VIEWS)
        relative_NN = (window_N[:, None] == window_N) & ~itself_NN
        contrast = -log_softmax(alike_NN, dim=-1)[relative_NN].mean()
        return present_mean((rebuilt_BKC - batch.x_BKC).square(), batch.m_BKC) + _CONTRAST * contrast
