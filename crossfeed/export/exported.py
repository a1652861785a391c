"""An exported model behind the interface of everything that forecasts, so that it can be scored like any other.

B windows, K context rows, C sensors, A commands.
"""

import torch

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
        x_BKC = torch.where(batch.m_BKC, batch.x_BKC, torch.nan)
        inputs = (values.cpu().numpy() for values in (x_BKC, batch.a_BKA, batch.future_a_BTA))
        part = {name: torch.from_numpy(values) for name, values in self.model.run(*inputs).items()}
        if self.model.family == "Gaussian":
            return Gaussian(part["mean"], part["scale"])
        return Mixture(part["log_weight_M"], part["mean_M"], part["scale_M"])
