"""The world model behind the one interface."""

import torch
from torch import nn

from crossfeed.errors import TableError
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


def check_shared_channels(model: WorldModel, present_C: torch.Tensor, table: str) -> None:
    """Refuse a table that shows none of the sensors the model was trained on."""
    known = torch.tensor([name not in model.normaliser.unseen for name in model.schema.sensor_names])
    if not (known & present_C).any():
        raise TableError(
            f"{table} shows none of the sensors the model was trained on.",
            expected=f"at least one of {', '.join(n for n, k in zip(model.schema.sensor_names, known) if k)}",
            remedy="Check the column mapping of the machine, or train a model on sensors that both machines have.",
        )
