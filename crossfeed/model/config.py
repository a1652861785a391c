"""The configuration of a model: that of one of the two networks."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from crossfeed.errors import ConfigError
from crossfeed.model.jepa.config import JepaConfig
from crossfeed.model.sensors.config import SensorConfig

Model = TypeVar("Model", bound=BaseModel)

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
