"""The configuration of a model: that of one of the two networks."""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from crossfeed.configuration import problems
from crossfeed.errors import ConfigError
from crossfeed.model.jepa.config import JepaConfig
from crossfeed.model.sensors.config import SensorConfig

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
