"""A run that goes on from a model of many machines: the same network, machines in their own frames, smaller steps."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from crossfeed.model.model_file import ModelFile
from crossfeed.model.new_machine import readable_schema, reads_any_sensors
from crossfeed.model.sensors.further_commands import with_further_commands
from crossfeed.schema import Schema
from crossfeed.training.run_config import RunConfig

GENTLER = 0.3  # times the usual learning rate: what is known already is to be kept
KEPT = 0.15  # of the weights stay as they came: hardly felt at home, and what holds on other machines


def going_on(config: RunConfig, body: ModelFile) -> RunConfig:
    """The configuration as asked, with everything taken over that the weights depend on; one that has it, as it is."""
    if config.training.initialisation == "complete_checkpoint" and config.model == body.config:
        return config
    training = config.training.model_copy(
        update={
            "pretrain_epochs": 0,
            "initialisation": "complete_checkpoint",
            "learning_rate": GENTLER * config.training.learning_rate,
        }
    )
    data = config.data.model_copy(update={"normaliser": "frame"})
    return RunConfig.model_validate(
        {**config.model_dump(), "model": body.config, "training": training, "data": data},
    )


def read_by(body: ModelFile, found: Schema) -> Schema:
    """A table's schema as the run reads it: all commands, where the network does not know them by name."""
    return readable_schema(found, body.schema, further=reads_any_sensors(body.config))


def weights_for(schema: Schema, body: ModelFile) -> dict[str, Tensor]:
    """The weights to begin with, wide enough for the commands of the schema."""
    if not reads_any_sensors(body.config):
        return body.tensors
    return with_further_commands(body.tensors, body.config, body.schema, schema)


@torch.no_grad()
def keep_some(model: nn.Module, came: Mapping[str, Tensor]) -> None:
    """Put the weights of a model that went on a little way back to those it began with."""
    for name, parameter in model.named_parameters():
        parameter.lerp_(came[name].to(parameter), KEPT)
