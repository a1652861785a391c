"""The configuration of a model: that of one of the two networks. The paper's network and its five sizes are here."""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from crossfeed.errors import ConfigError
from crossfeed.model.blocks import BlockConfig
from crossfeed.model.encoder import EncoderConfig
from crossfeed.model.head import HeadConfig
from crossfeed.model.horizon_embedding import SLOTS
from crossfeed.model.instance_norm import InstanceNormConfig
from crossfeed.model.network_config import NetworkConfig, Size
from crossfeed.model.predictor import PredictorConfig
from crossfeed.model.sensors.config import SensorConfig
from crossfeed.model.target_encoder import TargetConfig

Model = TypeVar("Model", bound=BaseModel)

# width, heads, temporal layers, predictor layers
SIZES: dict[str, tuple[int, int, int, int]] = {
    "tiny": (64, 4, 2, 1),
    "compact": (128, 4, 4, 2),
    "base": (256, 8, 6, 4),
    "medium": (384, 8, 6, 4),
    "large": (512, 8, 8, 6),
}


class JepaConfig(NetworkConfig):
    """Everything that decides what the paper's network computes; the defaults are the mended one at base size."""

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

    def sized(self, size: Size) -> Self:
        """The same model in another size."""
        if size not in SIZES:
            raise ConfigError(f"There is no size '{size}'.", expected=f"one of {', '.join(SIZES)}")
        width, heads, temporal_layers, predictor_layers = SIZES[size]
        return self.model_copy(
            update={
                "blocks": self.blocks.model_copy(update={"width": width, "heads": heads}),
                "encoder": self.encoder.model_copy(update={"temporal_layers": temporal_layers}),
                "predictor": self.predictor.model_copy(update={"layers": predictor_layers}),
            }
        )


ModelConfig = Annotated[SensorConfig | JepaConfig, Field(discriminator="network")]


def parse(kind: type[Model], content: Any, origin: str) -> Model:
    """Build a configuration from parsed JSON or YAML; what is wrong becomes one readable ConfigError."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise _readable(error, origin) from error


def parse_model(content: Any, origin: str) -> SensorConfig | JepaConfig:
    """Build the configuration of whichever network it names; files from before there were two have the paper's."""
    if isinstance(content, dict):
        content = {"network": "jepa", **content}
    adapter: TypeAdapter[SensorConfig | JepaConfig] = TypeAdapter(ModelConfig)
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        raise _readable(error, origin) from error


def _readable(error: ValidationError, origin: str) -> ConfigError:
    problems = "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'configuration'}: {problem['msg']}"
        for problem in error.errors()
    )
    return ConfigError(f"{origin} is not a valid configuration: {problems}.")
