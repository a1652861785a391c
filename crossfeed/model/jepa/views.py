"""The partial views of a batch that training draws: what the context shows, and a further reduced schema.

B windows, K context rows, C sensors.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from crossfeed.windows.corrupt import MaskConfig, corrupt, schema_view
from crossfeed.windows.windows import WindowBatch


@dataclass(frozen=True, slots=True)
class Views:
    """Presence masks of the corrupted context (line 2 of Algorithm 1) and of the reduced schema (line 10)."""

    m_BKC: Tensor
    reduced_m_BKC: Tensor | None


def draw_views(batch: WindowBatch, masks: MaskConfig, schema_keep: float, generator: torch.Generator) -> Views:
    """Corrupt the context, then keep a random part of the channels that are still present."""
    m_BKC = corrupt(batch.x_BKC, batch.m_BKC, masks, generator)
    return Views(m_BKC, schema_view(m_BKC, schema_keep, generator))
