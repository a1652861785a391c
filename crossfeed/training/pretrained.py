"""A run that begins with a pretrained model of many machines: whether that helps, what is set, what is kept of it.

It takes the network as it is, reads machines in their own frames, and takes smaller steps.

B windows, H horizons, C sensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from crossfeed.errors import CheckpointError
from crossfeed.logs.align import align
from crossfeed.logs.table import Table
from crossfeed.model.model_file import ModelFile
from crossfeed.model.new_machine import in_frame, readable_schema, reads_any_sensors, with_further_commands
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Schema
from crossfeed.training.config import Initialisation
from crossfeed.training.data import prepare
from crossfeed.training.health import persistence
from crossfeed.training.run_config import RunConfig
from crossfeed.training.seeds import spread_out

LEARNING_RATE_FACTOR = 0.3  # times the usual learning rate: what is known already is to be kept
PRETRAINED_SHARE = 0.15  # of the final weights: hardly felt at home, and what holds on other machines
COMPARED_WINDOWS = 256  # a second or two of a core
AT_ONCE = 128


def finetuning_config(config: RunConfig, pretrained: ModelFile) -> RunConfig:
    """The configuration as asked, with everything taken over that the weights depend on; one that has it, as it is."""
    if config.training.initialisation == "complete_checkpoint" and config.model == pretrained.config:
        return config
    training = config.training.model_copy(
        update={
            "pretrain_epochs": 0,
            "initialisation": "complete_checkpoint",
            "learning_rate": LEARNING_RATE_FACTOR * config.training.learning_rate,
        }
    )
    data = config.data.model_copy(update={"normaliser": "frame"})
    return RunConfig.model_validate(
        {**config.model_dump(), "model": pretrained.config, "training": training, "data": data},
    )


def aligned(tables: Sequence[Table], pretrained: ModelFile) -> list[Table]:
    """The tables as the run reads them: all of their commands, where the network does not know them by name."""
    further = reads_any_sensors(pretrained.config)
    return [align(table, readable_schema(table.schema, pretrained.schema, further=further)) for table in tables]


def initial_weights(schema: Schema, pretrained: ModelFile) -> dict[str, Tensor]:
    """The weights to begin with, wide enough for the commands of the schema."""
    if not reads_any_sensors(pretrained.config):
        return pretrained.tensors
    return with_further_commands(pretrained.tensors, pretrained.config, pretrained.schema, schema)


@torch.no_grad()
def average_with_pretrained(model: nn.Module, pretrained: Mapping[str, Tensor]) -> None:
    """Move fine-tuned weights a little way back to those they began with, so that what other machines taught stays."""
    for name, parameter in model.named_parameters():
        parameter.lerp_(pretrained[name].to(parameter), PRETRAINED_SHARE)


@torch.no_grad()
def beats_last_value(pretrained: ModelFile, tables: Sequence[Table], config: RunConfig) -> bool:
    """Whether its RMSE on windows that validate is below that of the last value, in deviations of the train rows.

    Some logs show what no machine does, because seconds between two cuts were taken out or columns are not what they
    are called. What a model of many machines knows is then in the way of a whole run.
    """
    usual = pretrained.provenance.get("usual_scales")
    data = prepare(aligned(tables, pretrained), finetuning_config(config, pretrained), torch.device("cpu"), usual)
    model = in_frame(WorldModel.of_file(pretrained), data.schema, data.normaliser)
    unit_C = torch.from_numpy(data.normaliser.sensor_scale / data.source.normaliser("zscore").sensor_scale)
    own, floor = torch.zeros(2, dtype=torch.float64)
    for index_B in torch.split(spread_out(len(data.validation), COMPARED_WINDOWS), AT_ONCE):
        batch = data.validation.batch(index_B)
        said_BHC = model(batch).distribution.mean
        last_BHC = persistence(batch.x_BKC, batch.m_BKC, model.horizons)
        for total, expected_BHC in ((own, said_BHC), (floor, last_BHC)):
            missed_BHC = unit_C * (expected_BHC - batch.future_x_BHC)
            total += torch.where(batch.future_m_BHC, missed_BHC.square(), 0.0).sum()
    return bool(own < floor)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Which tensors came from the pretrained weights, which kept their fresh values, which were not wanted."""

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


@torch.no_grad()
def initialise(model: WorldModel, pretrained: Mapping[str, Tensor], how: Initialisation) -> LoadReport:
    """Fill a freshly drawn model from pretrained weights; anything that is not as planned is an error.

    scratch: nothing is loaded. body_fresh_head: all but the physical and the recovery head. complete_checkpoint: all.
    """
    own = model.state_dict()
    wanted = {
        "scratch": [],
        "body_fresh_head": [name for name in own if name.partition(".")[0] not in model.fresh_heads],
        "complete_checkpoint": list(own),
    }[how]
    lacking = [name for name in wanted if name not in pretrained]
    other_shape = [name for name in wanted if name in pretrained and pretrained[name].shape != own[name].shape]
    foreign = [name for name in pretrained if name not in own]
    if lacking or other_shape or foreign:
        problems = {"missing": lacking, "of another shape": other_shape, "unknown to the model": foreign}
        raise CheckpointError(
            "The pretrained weights do not fit: "
            + "; ".join(f"{what}: {', '.join(names)}" for what, names in problems.items() if names)
            + ".",
            expected="weights of a model with the same configuration and schema",
            remedy="Pretrain with this configuration, or set training.initialisation=scratch.",
        )
    for name in wanted:
        own[name].copy_(pretrained[name])
    return LoadReport(
        loaded=tuple(wanted),
        missing=tuple(name for name in own if name not in wanted),
        unexpected=tuple(name for name in pretrained if name not in wanted),
    )
