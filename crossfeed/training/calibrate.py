"""After training, once: how much wider forecasts have to be so that nine in ten validation targets lie inside 90 %.

A network that has seen its windows many times knows them better than it will know others, and its intervals are too
narrow for those. B windows, H horizons, C sensors.
"""

from dataclasses import replace

import torch
from torch import Tensor

from crossfeed.distribution import Mixture
from crossfeed.model.sensors.model import SensorModel
from crossfeed.training.reading import Reader
from crossfeed.windows.windows import WindowSet

NOMINAL = 0.9
WIDENINGS = tuple(1.0 + 0.05 * step for step in range(41))  # never narrower: what is not needed is not taken
BATCH = 256
MOST_WINDOWS = 4096


@torch.no_grad()
def calibrate(model: SensorModel, validation: WindowSet, precision: str) -> None:
    """Set the model's widening at each horizon to the smallest that holds on these windows."""
    model.widening_H.fill_(1.0)
    device = validation.last_W.device
    count = min(len(validation), MOST_WINDOWS)
    index_W = torch.linspace(0, len(validation) - 1, count, device=device).round().long()
    reader = Reader(model, validation, precision, BATCH, captured=False, teacher=False)
    inside_WH = torch.zeros(len(WIDENINGS), len(model.horizons), dtype=torch.float64, device=device)
    present_H = torch.zeros(len(model.horizons), dtype=torch.float64, device=device)
    for reading in reader(index_W):
        said = reading.prediction.distribution
        assert isinstance(said, Mixture)
        present_H += reading.future_m_BHC.sum((0, 2))
        for place, widening in enumerate(WIDENINGS):
            wider = replace(said, scale_M=said.scale_M * widening)
            held_BHC = (wider.cdf(reading.future_x_BHC) - 0.5).abs() <= NOMINAL / 2.0
            inside_WH[place] += (held_BHC & reading.future_m_BHC).sum((0, 2))
    model.widening_H.copy_(_smallest_enough(inside_WH, present_H))


def _smallest_enough(inside_WH: Tensor, present_H: Tensor) -> Tensor:
    """At each horizon the first widening that reaches the nominal share; the widest where none does."""
    enough_WH = inside_WH >= NOMINAL * present_H
    enough_WH[-1] = True
    widening_W = torch.tensor(WIDENINGS, device=inside_WH.device)
    return widening_W[enough_WH.int().argmax(0)].float()
