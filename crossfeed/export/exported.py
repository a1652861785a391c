"""An exported model behind the interface of everything that forecasts, so that it can be scored like any other.

B windows, K context rows, C sensors.
"""

import numpy as np
import torch
from torch import Tensor

from crossfeed.distribution import Distribution, Gaussian, Mixture
from crossfeed.edge import EdgeModel
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.windows.windows import WindowBatch


class ExportedForecaster(Forecaster):
    """What onnxruntime says, as the distribution it stands for."""

    uses_future_commands = True

    def __init__(self, model: EdgeModel, name: str) -> None:
        self.model, self.name = model, name

    def predict(self, batch: WindowBatch) -> Distribution:
        return distribution(self.model, batch.x_BKC, batch.m_BKC, batch.a_BKA, batch.future_a_BTA)


def distribution(model: EdgeModel, x_BKC: Tensor, m_BKC: Tensor, a_BKA: Tensor, plan_BTA: Tensor) -> Distribution:
    """The exported network on windows in z-units."""
    x = np.where(m_BKC.cpu().numpy(), x_BKC.cpu().numpy(), np.nan)
    said = model.run(x, a_BKA.cpu().numpy(), plan_BTA.cpu().numpy())
    part = {name: torch.from_numpy(values) for name, values in said.items()}
    if model.family == "Gaussian":
        return Gaussian(part["mean"], part["scale"])
    return Mixture(part["log_weight_M"], part["mean_M"], part["scale_M"])
