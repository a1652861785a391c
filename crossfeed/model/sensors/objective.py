"""What the sensor network is trained for: the ranked probability score of its mixtures and the square of its error.

B windows, H horizons, C sensors.
"""

from collections.abc import Callable
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from crossfeed.configuration import CheckedForm
from crossfeed.model.interface import Plan
from crossfeed.model.sensors.model import SensorContext, SensorModel
from crossfeed.windows.windows import WindowBatch, present_mean


class ForecastWeights(CheckedForm):
    """One weight per term."""

    crps: float = Field(default=1.0, ge=0.0)
    squared: float = Field(default=0.25, ge=0.0)


class ForecastObjectiveConfig(CheckedForm):
    """How much the distribution and how much its mean counts."""

    trains: Literal["forecast"] = "forecast"
    weights: ForecastWeights = ForecastWeights()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.active("finetune"):
            raise ValueError("both weights are 0, so nothing would be trained: give crps or squared a weight")
        return self

    def active(self, stage: str) -> dict[str, float]:
        """The terms a stage trains, with their weights; there is nothing to pretrain."""
        return {name: weight for name, weight in vars(self.weights).items() if weight > 0.0 and stage == "finetune"}


def forecast_losses(
    model: SensorModel, batch: WindowBatch, m_BKC: Tensor, gain_B1C: Tensor, config: ForecastObjectiveConfig
) -> dict[str, Tensor]:
    """Both terms, averaged over members and present targets; `m_BKC` is what the members are shown."""
    model.check(batch)
    context = model.encode(batch.x_BKC, m_BKC, batch.a_BKA)
    assert isinstance(context, SensorContext)
    active = config.active("finetune")
    present_BHC = batch.future_m_BHC
    x_BHC = torch.where(present_BHC, batch.future_x_BHC, 0.0)
    _, mixture = model.member_mixtures(context, Plan.of(batch, model.horizons))
    terms: dict[str, Callable[[], Tensor]] = {
        "crps": lambda: mixture.crps(x_BHC) / gain_B1C,
        "squared": lambda: ((mixture.mean - x_BHC) / gain_B1C).square(),
    }
    # Every member is judged for itself, and all of them over the same targets.
    return {name: present_mean(terms[name]().mean(0), present_BHC) for name in active}
