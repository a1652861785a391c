"""Direct forecasts at every horizon: those the model was trained for, and those in between (see rollout.py)."""

from collections.abc import Iterator

import numpy as np
import torch

from crossfeed.logs.table import Table
from crossfeed.model.interface import Plan
from crossfeed.model.world_model import WorldModel
from crossfeed.windows.windows import WindowSet


def horizon_errors(model: WorldModel, table: Table, windows: int = 600) -> Iterator[tuple[int, bool, float, float]]:
    """Error and coverage of direct forecasts at every horizon, trained or in between."""
    horizons = tuple(range(1, model.horizons[-1] + 1))
    data = WindowSet.build(table, None, model.normaliser, model.config.context, horizons)
    index = torch.linspace(0, len(data) - 1, windows).long()
    parts = []
    with torch.inference_mode():
        for part in index.split(100):
            batch = data.batch(part)
            context = model.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA)
            said = model.decode(context, Plan.of(batch, horizons)).distribution
            error = torch.where(batch.future_m_BHC, batch.future_x_BHC - said.mean, torch.nan)
            inside = (said.cdf(batch.future_x_BHC) - 0.5).abs() <= 0.45
            parts.append((error, inside))
    error, covered = (torch.cat(side).double().numpy() for side in zip(*parts))
    for slot, horizon in enumerate(horizons):
        there = np.isfinite(error[:, slot])
        inside = covered[:, slot][there]
        rmse = float(np.sqrt(np.square(error[:, slot][there]).mean()))
        yield horizon, horizon in model.horizons, rmse, float(inside.mean())
