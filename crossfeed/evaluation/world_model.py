"""The world model behind the one interface."""

from torch import nn

from crossfeed.evaluation.distribution import Distribution, Gaussian, StudentT
from crossfeed.model.prediction import Prediction
from crossfeed.model.world_model import WorldModel
from crossfeed.windows.windows import WindowBatch


class WorldModelForecaster:
    """A trained world model, as `crossfeed train` makes it."""

    uses_future_commands = True

    def __init__(self, model: WorldModel, name: str = "world model") -> None:
        self.model, self.name = model.eval(), name

    @property
    def module(self) -> nn.Module:
        """What adaptation may change."""
        return self.model

    def predict(self, batch: WindowBatch) -> Distribution:
        return distribution(self.model(batch))


def distribution(prediction: Prediction) -> Distribution:
    """What the head says, as a distribution in z-space."""
    if prediction.degrees_of_freedom_C is None:
        return Gaussian(prediction.mean_BHC, prediction.scale)
    return StudentT(prediction.mean_BHC, prediction.scale, prediction.degrees_of_freedom_C)
