"""The world model behind the one interface."""

from collections.abc import Sequence
from typing import Self

from torch import Tensor, nn

from crossfeed.distribution import Distribution
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.model.interface import Plan
from crossfeed.model.world_model import WorldModel
from crossfeed.windows.windows import WindowBatch, WindowSet


class WorldModelForecaster(Forecaster):
    """A trained world model, as `crossfeed train` makes it."""

    uses_future_commands = True
    thread_safe = True

    def __init__(self, model: WorldModel, name: str = "world model") -> None:
        self.model, self.name = model.eval(), name
        self._channels: Tensor | None = None

    @property
    def module(self) -> nn.Module:
        """What adaptation may change."""
        return self.model

    def reading(self, windows: WindowSet) -> Self:
        """Skip the sensors that these windows never show: the same forecasts of all others for less work."""
        self._channels = self.model.channels_to_read(windows.m_NC.any(0), absent_too=False)
        return self

    def predict(self, batch: WindowBatch) -> Distribution:
        return self.predict_plans([batch])[0]

    def predict_plans(self, batches: Sequence[WindowBatch]) -> list[Distribution]:
        """Forecasts for batches that differ in their plans alone; the context is encoded once."""
        first, model = batches[0], self.model
        context = model.encode(first.x_BKC, first.m_BKC, first.a_BKA, self._channels_for(first))
        return [model.decode(context, Plan.of(planned, model.horizons)).distribution for planned in batches]

    def _channels_for(self, batch: WindowBatch) -> Tensor | None:
        """The sensors to read; all of them if the batch shows one that was not expected."""
        if self._channels is None:
            return None
        skipped = batch.m_BKC.flatten(0, 1).any(0)
        skipped[self._channels] = False
        return None if bool(skipped.any()) else self._channels
