"""Averages that never read an absent entry."""

import torch
from torch import Tensor


def present_mean(entry: Tensor, present: Tensor) -> Tensor:
    """Mean of the present entries; zero when there is none."""
    return torch.where(present, entry, 0.0).sum() / present.sum().clamp(min=1)
