"""The complete configuration of a run: method, training and data in one frozen object, the two presets, YAML."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from crossfeed.errors import ConfigError
from crossfeed.model.config import Size
from crossfeed.model.presets import MethodConfig, crossfeed, paper
from crossfeed.training.config import TrainingConfig, paper_training
from crossfeed.windows.normalise import ROBUST_FLOOR, Method
from crossfeed.windows.split import SPLIT_SEED, By

PRESETS = ("crossfeed", "paper")


class DataConfig(BaseModel):
    """How tables are split, normalised and cut into windows; context and horizons belong to the model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    split_by: By = "session"
    split_seed: int = SPLIT_SEED
    train_fraction: float = Field(default=0.67, gt=0.0, lt=1.0)
    validation_fraction: float = Field(default=0.17, gt=0.0, lt=1.0)
    normaliser: Method = "zscore"
    robust_floor: float = Field(default=ROBUST_FLOOR, ge=0.0)
    stride: int = Field(default=1, ge=1)


class RunConfig(MethodConfig):
    """Everything that decides the numbers of a run, apart from the tables."""

    training: TrainingConfig = TrainingConfig()
    data: DataConfig = DataConfig()


def preset(name: Literal["crossfeed", "paper"] | str = "crossfeed", size: Size = "base") -> RunConfig:
    """One of the two complete configurations, in one of the five sizes."""
    if name not in PRESETS:
        raise ConfigError(f"There is no preset '{name}'.", expected=f"one of {', '.join(PRESETS)}")
    method = crossfeed(size) if name == "crossfeed" else paper(size)
    training = TrainingConfig() if name == "crossfeed" else paper_training()
    return RunConfig(model=method.model, masks=method.masks, objectives=method.objectives, training=training)
