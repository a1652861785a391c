"""A run of the sensor network that takes a second."""

from typing import Any

import torch

from crossfeed.configuration import override
from crossfeed.logs.table import Table
from crossfeed.model.sensors.model import SensorModel
from crossfeed.training.data import TrainingData, prepare
from crossfeed.training.run_config import RunConfig, preset

SMALL: dict[str, Any] = {
    "model.context": 8,
    "model.horizons": [1, 2, 4],
    "model.width": 16,
    "model.heads": 2,
    "training.batch_size": 16,
    "training.steps_per_epoch": 4,
    "training.finetune_epochs": 3,
    "training.warmup_steps": 2,
    "training.average_decay": 0.9,
}


def sensor_config(changes: dict[str, Any] | None = None) -> RunConfig:
    """The default preset at its smallest; `changes` are dotted names."""
    return override(preset("crossfeed", "tiny"), SMALL | (changes or {}))


def sensor_model(table: Table, changes: dict[str, Any] | None = None) -> tuple[SensorModel, TrainingData]:
    """A freshly drawn model and the windows it would be trained on."""
    config = sensor_config(changes)
    data = prepare([table], config, torch.device("cpu"))
    torch.manual_seed(0)
    model = SensorModel(config.model, data.schema, data.normaliser)  # type: ignore[arg-type]
    return model.eval(), data
