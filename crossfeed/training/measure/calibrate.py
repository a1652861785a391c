"""After training, once, on source validation: how wide forecasts have to be, and by how much members may disagree.

A network that has seen its windows many times knows them better than it will know others, and its intervals are too
narrow for those. B windows, H horizons, C sensors.
"""

from dataclasses import replace

import torch
from torch import Tensor

from crossfeed.distribution import Mixture
from crossfeed.model.interface import Plan
from crossfeed.model.world_model import WorldModel
from crossfeed.training.order import spread_out
from crossfeed.windows.windows import WindowSet

NOMINAL = 0.9
WIDENINGS = tuple(1.0 + 0.05 * step for step in range(41))  # never narrower: what is not needed is not taken
USUAL = 0.99  # share of windows about which members disagree less than the threshold
BATCH = 256
MOST_WINDOWS = 4096


@torch.no_grad()
def calibrate(model: WorldModel, validation: WindowSet) -> None:
    """Fit variance inflation and disagreement threshold to these windows, where the model has them.

    The inflation at each horizon is the smallest with which so many targets as promised lie inside.
    """
    if model.variance_inflation_H is None:
        return
    model.eval()
    model.variance_inflation_H.fill_(1.0)
    device = validation.last_W.device
    inside_WH = torch.zeros(len(WIDENINGS), len(model.horizons), dtype=torch.float64, device=device)
    present_H, disagreements = torch.zeros(len(model.horizons), dtype=torch.float64, device=device), []
    for index_B in torch.split(spread_out(len(validation), MOST_WINDOWS), BATCH):
        batch = validation.batch(index_B.to(device))
        rows = model.read(batch.x_BKC, batch.m_BKC, model.level(batch.x_BKC, batch.m_BKC))
        context, plan = model.context(rows, batch.a_BKA), Plan.of(batch, model.horizons)
        prediction = model.decode(context, plan)
        mixture, disagreement_BHC = prediction.distribution, prediction.disagreement
        assert isinstance(mixture, Mixture)
        assert disagreement_BHC is not None
        present_H += batch.future_m_BHC.sum((0, 2))
        for index, widening in enumerate(WIDENINGS):
            held_BHC = replace(mixture, scale_M=mixture.scale_M * widening).covers(batch.future_x_BHC, NOMINAL)
            inside_WH[index] += (held_BHC & batch.future_m_BHC).sum((0, 2))
        apart_BHC = torch.where(batch.future_m_BHC, disagreement_BHC, 0.0)
        disagreements.append(apart_BHC.sum((1, 2)) / batch.future_m_BHC.sum((1, 2)).clamp(min=1))
    model.variance_inflation_H.copy_(_smallest_enough(inside_WH, present_H))
    model.disagreement_threshold.copy_(torch.cat(disagreements).quantile(USUAL))


def _smallest_enough(inside_WH: Tensor, present_H: Tensor) -> Tensor:
    """At each horizon the first widening that reaches the nominal share; the widest where none does."""
    enough_WH = inside_WH >= NOMINAL * present_H
    enough_WH[-1] = True
    widening_W = torch.tensor(WIDENINGS, device=inside_WH.device)
    return widening_W[enough_WH.int().argmax(0)].float()
