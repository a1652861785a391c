"""The level of the machine in a rollout: window statistics of measured rows, another window for each path.

Statistics of sampled rows would let every small bias move the level on which the next forecast stands, and after
minutes the paths would drift away. A single measured window would be taken for certain although a start-up peak may lie
in it. So each path keeps the statistics of one of the last measured windows, and their spread is part of the forecast.

N samples, K context rows, R measured rows, C sensors.
"""

import torch
from torch import Tensor

from crossfeed.model.instance_norm import InstanceNorm, Statistics

CONTEXTS = 4  # how many contexts back the windows may begin


def levels(norm: InstanceNorm, x_RC: Tensor, context: int, samples: int) -> Statistics | None:
    """Statistics (N, C), evenly spread over the last measured windows; mirrored paths share theirs."""
    x_RC = x_RC[-CONTEXTS * context :]
    pairs = (samples + 1) // 2
    last = len(x_RC) - context
    start_N = torch.linspace(last, 0, pairs).round().long()[torch.arange(samples) % pairs]
    x_NKC = x_RC[start_N[:, None] + torch.arange(context)]
    found = norm.statistics(x_NKC, x_NKC.isfinite())
    if found is None:
        return None
    # A window that lacks a sensor knows no level of it; the last window does, or the sensor is absent.
    newest, seen_NC = norm.statistics(x_RC[None, last:], x_RC[None, last:].isfinite()), x_NKC.isfinite().any(1)
    assert newest is not None
    return Statistics(
        torch.where(seen_NC, found.centre_BC, newest.centre_BC), torch.where(seen_NC, found.scale_BC, newest.scale_BC)
    )
