"""The configuration of either network: the rows it reads, the horizons it forecasts, five sizes, and what it computes.

The objective of the sensor network stands beside it; that of the paper's network is in `jepa/objectives.py`.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from crossfeed.configuration import CheckedForm, override, problems
from crossfeed.errors import ConfigError
from crossfeed.model.jepa.encoder import EncoderConfig, TargetConfig
from crossfeed.model.jepa.predictor import SLOTS, HeadConfig, PredictorConfig
from crossfeed.model.parts.blocks import BlockConfig, check_heads
from crossfeed.model.parts.instance_norm import InstanceNormConfig

Size = Literal["tiny", "compact", "base", "medium", "large"]


class NetworkConfig(CheckedForm):
    """Context and horizons, in rows."""

    context: int = Field(default=32, ge=1)
    horizons: tuple[int, ...] = (1, 2, 4, 8, 16)
    # What a size decides, and its value at each size.
    sized_by: ClassVar[tuple[str, ...]]
    sizes: ClassVar[dict[str, tuple[int, ...]]]

    def sized(self, size: Size) -> Self:
        """The same network in another size."""
        if size not in self.sizes:
            raise ConfigError(f"There is no size '{size}'.", expected=f"one of {', '.join(self.sizes)}")
        return override(self, dict(zip(self.sized_by, self.sizes[size], strict=True)), f"The size '{size}'")

    @model_validator(mode="after")
    def _horizons_rise(self) -> Self:
        horizons = self.horizons
        if not horizons or horizons[0] < 1 or list(horizons) != sorted(set(horizons)):
            raise ValueError(
                f"horizons {list(horizons)} are not usable: give whole numbers of rows from 1 on, each once, in rising "
                "order, for example [1, 2, 4, 8, 16]"
            )
        return self


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


class JepaConfig(NetworkConfig):
    """Everything that decides what the paper's network computes; the defaults are the mended one at base size."""

    sized_by: ClassVar = ("blocks.width", "blocks.heads", "encoder.temporal_layers", "predictor.layers")
    sizes: ClassVar = {
        "tiny": (64, 4, 2, 1),
        "compact": (128, 4, 4, 2),
        "base": (256, 8, 6, 4),
        "medium": (384, 8, 6, 4),
        "large": (512, 8, 8, 6),
    }
    network: Literal["jepa"] = "jepa"
    blocks: BlockConfig = BlockConfig()
    encoder: EncoderConfig = EncoderConfig()
    target: TargetConfig = TargetConfig()
    predictor: PredictorConfig = PredictorConfig()
    head: HeadConfig = HeadConfig()
    instance_norm: InstanceNormConfig = InstanceNormConfig()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        horizons = self.horizons
        if self.predictor.horizon_embedding == "slot" and len(horizons) > SLOTS:
            raise ValueError(
                f"{len(horizons)} horizons do not fit {SLOTS} slots: set predictor.horizon_embedding to 'value'"
            )
        if self.instance_norm.kind != "none" and self.context < 2:
            raise ValueError(
                f"instance normalisation '{self.instance_norm.kind}' of a context of one row leaves nothing to read: "
                "set context to 2 or more, or instance_norm.kind to 'none'"
            )
        needed = max(self.context, horizons[-1] + 1 if self.target.positions == "horizon" else len(horizons))
        if self.encoder.positions < needed:
            raise ValueError(
                f"the time table has {self.encoder.positions} rows but context and horizons need {needed}: "
                f"set encoder.positions to {needed} or more"
            )
        return self

    @property
    def width(self) -> int:
        """The width of the latents."""
        return self.blocks.width


ModelConfig = Annotated[SensorConfig | JepaConfig, Field(discriminator="network")]


def parse_model(content: Any, origin: str) -> SensorConfig | JepaConfig:
    """Build the configuration of whichever network it names; files from before there were two have the paper's."""
    if isinstance(content, dict):
        content = {"network": "jepa", **content}
    adapter: TypeAdapter[SensorConfig | JepaConfig] = TypeAdapter(ModelConfig)
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        raise ConfigError(f"{origin} is not a valid configuration: {problems(error)}.") from error
