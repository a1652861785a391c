"""The spread of a forecaster that gives none: what its errors were on the windows it could learn from.

H horizons, C sensors.
"""

import torch
from torch import Tensor

from crossfeed.evaluation.forecaster import PointForecast, residual_spread
from crossfeed.windows.windows import WindowSet


def learned_spread(point: PointForecast, train: WindowSet, validation: WindowSet) -> Tensor:
    """Root mean square error per horizon and channel (H, C), on train or validation windows, whichever is larger.

    Train errors alone are too small after overfitting; validation errors alone are too small for a channel that
    happens to stand still in the few sessions on that side.
    """
    return torch.maximum(residual_spread(point, train), residual_spread(point, validation))
