"""The level of the machine in a rollout: window statistics of measured rows, another window for each path.

Statistics of sampled rows would let every small bias move the level on which the next forecast stands, and after
minutes the paths would drift away. A single measured window would be taken for certain although a start-up peak may lie
in it. So each path keeps the statistics of one of the last measured windows, and their spread is part of the forecast.

N samples, K context rows, R measured rows, C sensors.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from crossfeed.model.parts.instance_norm import Statistics

CONTEXTS = 4  # how many contexts back the windows may begin


def levels(
    level: Callable[[Tensor, Tensor], Statistics | None], x_RC: Tensor, context: int, samples: int
) -> Statistics | None:
    """What a model's `level` says of N windows, evenly spread over the last measured ones; mirrored paths share."""
    x_RC = x_RC[-CONTEXTS * context :]
    pairs = (samples + 1) // 2
    last = len(x_RC) - context
    start_N = torch.linspace(last, 0, pairs).round().long()[torch.arange(samples) % pairs]
    x_NKC = x_RC[start_N[:, None] + torch.arange(context)]
    found = level(x_NKC, x_NKC.isfinite())
    # A window that lacks a sensor knows no level of it; the last window does, or the sensor is absent.
    newest = level(x_RC[None, last:], x_RC[None, last:].isfinite())
    return None if found is None or newest is None else found.where(x_NKC.isfinite().any(1), newest)
