"""The configuration of the sensor network, its five sizes, and what it is trained for."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from crossfeed.configuration import CheckedForm
from crossfeed.model.network_config import NetworkConfig, check_heads


class SensorConfig(NetworkConfig):
    """Everything that decides what the network computes; the defaults are the `crossfeed` preset at compact size.

    movers: components of the mixture beside the one that stands and the one that rests. reach: a physical zero counts
    for sensors whose mean in the source is at most so many standard deviations away from it. members: networks of this
    kind in one file, each with its own start; forecasts are pooled, and their disagreement tells what is not known.
    identity: a channel is known by quantity, place and its own name, or (described) by no name, so that the network
    fits any list of sensors. quantities: those that have a vector, in the order of the weights; null for all that are
    known when the weights are drawn. A model keeps its list, so a quantity that is known later changes no saved model.
    """

    sized_by: ClassVar = ("width", "heads", "encoder_layers", "decoder_layers")
    sizes: ClassVar = {
        "tiny": (64, 4, 1, 1),
        "compact": (128, 4, 2, 2),
        "base": (256, 8, 2, 2),
        "medium": (384, 8, 3, 3),
        "large": (512, 8, 4, 4),
    }
    network: Literal["sensors"] = "sensors"
    width: int = Field(default=128, ge=1)
    heads: int = Field(default=4, ge=1)
    encoder_layers: int = Field(default=2, ge=1)
    decoder_layers: int = Field(default=2, ge=1)
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    movers: int = Field(default=2, ge=1)
    noise_floor: float = Field(default=0.005, gt=0.0)
    reach: float = Field(default=4.0, gt=0.0)
    members: int = Field(default=2, ge=1, le=64)
    identity: Literal["named", "described"] = "named"
    quantities: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        check_heads(self.heads, self.width)
        return self


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
