"""What costs nothing: forecasts every model has to beat, on the same windows, reading present entries only.

B windows, K context rows, C sensors, H horizons. A channel never seen in the context is forecast at its train mean.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def persistence(x_BKC: Tensor, m_BKC: Tensor, horizons: Sequence[int]) -> Tensor:
    """The last present value of every channel, at all horizons."""
    row_K = torch.arange(x_BKC.shape[1], device=x_BKC.device)
    last_B1C = torch.where(m_BKC, row_K[:, None], -1).amax(1, keepdim=True)
    value_B1C = x_BKC.gather(1, last_B1C.clamp(min=0))
    return torch.where(last_B1C >= 0, value_B1C, 0.0).expand(-1, len(horizons), -1)


def linear_drift(x_BKC: Tensor, m_BKC: Tensor, horizons: Sequence[int]) -> Tensor:
    """The least-squares line through the present context rows, continued; a single present row is continued flat."""
    x_BKC = torch.where(m_BKC, x_BKC, 0.0).double()
    weight_BKC = m_BKC.double()
    ago_K1 = torch.arange(1 - x_BKC.shape[1], 1, device=x_BKC.device, dtype=torch.float64)[:, None]
    count_BC = weight_BKC.sum(1).clamp(min=1.0)
    mean_ago_BC = (weight_BKC * ago_K1).sum(1) / count_BC
    mean_x_BC = x_BKC.sum(1) / count_BC
    away_BKC = (ago_K1 - mean_ago_BC[:, None]) * weight_BKC
    slope_BC = (away_BKC * x_BKC).sum(1) / away_BKC.square().sum(1).clamp(min=1e-9)
    ahead_H1 = torch.tensor(horizons, device=x_BKC.device, dtype=torch.float64)[:, None]
    return (mean_x_BC[:, None] + slope_BC[:, None] * (ahead_H1 - mean_ago_BC[:, None])).float()


def context_mean(x_BKC: Tensor, m_BKC: Tensor, horizons: Sequence[int]) -> Tensor:
    """The mean of the present values of every channel in the context, at all horizons."""
    total_B1C = torch.where(m_BKC, x_BKC, 0.0).sum(1, keepdim=True)
    return (total_B1C / m_BKC.sum(1, keepdim=True).clamp(min=1)).expand(-1, len(horizons), -1)


FLOORS = {"persistence": persistence, "linear drift": linear_drift}
