"""A model of many machines meets one: it takes over that machine's list of sensors, its commands and its frame.

Only networks that know channels by quantity and place can do that; their weights do not depend on the list. Where the
machine is commanded by more, the weights grow, and say what they said: past commands are tokens, so any number of them
fits, but features of planned steps enter two linear maps, and forecasts follow changed commands with an exponent for
each group. Features that are new begin with columns of zeros, exponents that are new faint and the same everywhere.

A commands, G groups of commands, F features of a planned step, V moving components of a forecast.
"""

from collections.abc import Mapping
from typing import TypeGuard

import torch
from torch import Tensor

from crossfeed.errors import ConfigError, TableError
from crossfeed.logs.align import align
from crossfeed.logs.table import Table
from crossfeed.model.config import SensorConfig
from crossfeed.model.sensors.commands import OF_EACH_COMMAND, OF_EACH_GROUP
from crossfeed.model.sensors.head import FAINT, STEEPEST, USUAL
from crossfeed.model.sensors.members import detail
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Channel, Schema
from crossfeed.windows.frame import FIRST_SHARE, first_rows, fit_frame
from crossfeed.windows.normalise import Normaliser

_STEP, _NEAR = "network.step.0.weight", "network.near.weight"
_HEAD = ("network.head.linear.weight", "network.head.linear.bias")
# From the exponent that a moving component starts with to the one with which what stands starts.
_FAINTER = torch.tensor([USUAL, FAINT]).div(STEEPEST).logit().diff().item()


def fit_to_machine(
    model: WorldModel, table: Table, usual: Mapping[str, float], share: float = FIRST_SHARE
) -> WorldModel:
    """The model for the machine of this table, in a frame measured on the first share of each of its runs."""
    machines = table.machines()
    if len(machines) > 1:
        raise TableError(
            f"The table holds {len(machines)} machines: {', '.join(machines[:5])}.",
            expected="one machine, because a model of many machines takes over the frame of the one it meets",
            remedy="Write one table for each machine (crossfeed data divide).",
        )
    schema = readable_schema(table.schema, model.schema)
    return in_frame(model, schema, _frame(table, schema, usual, share))


def add_sensors(model: WorldModel, table: Table, usual: Mapping[str, float], share: float = FIRST_SHARE) -> WorldModel:
    """The model with the sensors of the table that it never met, in a frame measured as for a machine that is met.

    What it has met stays as it was learned. A network that knows its sensors by name is left as it is.
    """
    if not reads_any_sensors(model.config):
        return model
    known = (*model.schema.sensor_names, *model.schema.command_names)
    further = tuple(channel for channel in table.schema.sensors if channel.name not in known)
    schema = Schema(
        name=model.schema.name,
        sensors=(*model.schema.sensors, *further),
        commands=model.schema.commands,
        quantities=table.schema.quantities | model.schema.quantities,
    )
    complete = model.normaliser.completed_by(_frame(table, schema, usual, share))
    return model if complete is model.normaliser else in_frame(model, schema, complete)


def _frame(table: Table, schema: Schema, usual: Mapping[str, float], share: float) -> Normaliser:
    """The frame of a machine, measured on the first share of each of its runs."""
    aligned = align(table, schema)
    rows = first_rows(aligned.groups, share)
    return fit_frame(schema, aligned.sensors[rows], aligned.commands[rows], usual)


def shares_a_command(known: Schema, found: Schema) -> bool:
    """Whether a model of many machines reads any command of a machine as one of its own."""
    return not set(found.command_names).isdisjoint(readable_schema(found, known).command_names)


def reads_any_sensors(config: object) -> TypeGuard[SensorConfig]:
    """Whether a network knows channels by quantity and place alone, so that it fits any list of them."""
    return isinstance(config, SensorConfig) and config.identity == "described"


def in_frame(model: WorldModel, schema: Schema, frame: Normaliser) -> WorldModel:
    """The same weights for another list of sensors; commands of the schema after the model's own are read as well."""
    config = model.config
    if not reads_any_sensors(config):
        raise ConfigError(
            "The model knows its sensors by name, so it can read no other list of them.",
            expected="a model trained with model.identity=described and data.normaliser=frame, such as 'fleet'",
        )
    met = WorldModel.build(config, schema, frame)
    met.load_state_dict(with_further_commands(model.state_dict(), config, model.schema, schema))
    return met.to(model.device).eval()


def readable_schema(found: Schema, known: Schema, further: bool = False) -> Schema:
    """The table's sensors as they are, and its commands in the model's order.

    A command is found by its name, else by quantity and place; one that the machine lacks keeps the model's name.
    The machine's `further` commands come after those of the model, where they are asked for.
    """
    commands = _commands(found, known)
    if further:
        commands = (*commands, *(channel for channel in found.commands if channel not in commands))
    taken = {channel.name for channel in commands}
    sensors = tuple(channel for channel in found.sensors if channel.name not in taken)
    return Schema(name=found.name, sensors=sensors, commands=commands, quantities=known.quantities | found.quantities)


def _commands(found: Schema, known: Schema) -> tuple[Channel, ...]:
    """For each command of the model the one of the machine that is meant; none of them is meant twice."""
    meant = {channel.name: channel for channel in found.commands if channel.name in known.command_names}
    free = [channel for channel in found.commands if channel.name not in meant]
    # The nearest pair first, so that of two spindles the one without a further word is the spindle.
    pairs = [(wanted, channel) for wanted in known.commands for channel in free if wanted.name not in meant]
    for wanted, channel in sorted((pair for pair in pairs if _alike(*pair)), key=lambda pair: _apart(*pair)):
        if wanted.name not in meant and channel not in meant.values():
            meant[wanted.name] = channel
    # Many controls tell only the feed along the path: the speed of all axes together is then that of the first.
    axes = [wanted.name for wanted in known.commands if wanted.quantity == "feed"]
    paths = [channel for channel in free if channel.quantity == "feed" and not channel.place]
    if paths and axes and not any(axis in meant for axis in axes):
        meant[axes[0]] = min(paths, key=lambda path: (len(path.words), path.name))
    return tuple(meant.get(wanted.name, wanted) for wanted in known.commands)


def _alike(one: Channel, other: Channel) -> bool:
    return (one.quantity, one.place) == (other.quantity, other.place)


def _apart(wanted: Channel, channel: Channel) -> tuple[bool, int, str, str]:
    """How far two alike commands are from each other: by the detail they name, by words, at last by the alphabet."""
    words = set(wanted.words) ^ set(channel.words)
    return detail(wanted) != detail(channel), len(words), channel.name, wanted.name


def with_further_commands(
    tensors: Mapping[str, Tensor], config: SensorConfig, known: Schema, wanted: Schema
) -> dict[str, Tensor]:
    """Weights for the commands of `wanted`, of which the first are those of `known` in their order."""
    if len(wanted.commands) == len(known.commands):
        return dict(tensors)
    group_of = _group_places(known, wanted)
    commands, groups = (len(wanted.commands), len(wanted.command_groups))
    column_F = _columns(range(len(known.commands)), commands, OF_EACH_COMMAND)
    column_F += [OF_EACH_COMMAND * commands + column for column in _columns(group_of, groups, OF_EACH_GROUP)]
    features = OF_EACH_COMMAND * commands + OF_EACH_GROUP * groups
    wider = dict(tensors)
    wider[_STEP] = _spread(tensors[_STEP], column_F, features)
    # The step itself, the one before it and the mean of all up to it, side by side.
    wider[_NEAR] = torch.cat([_spread(part, column_F, features) for part in tensors[_NEAR].chunk(3, -1)], -1)
    weight, bias = (tensors[name] for name in _HEAD)
    wider[_HEAD[0]] = _with_exponents(weight.transpose(-1, -2), config.movers, group_of, groups).transpose(-1, -2)
    wider[_HEAD[1]] = _with_exponents(bias, config.movers, group_of, groups, _FAINTER)
    return {name: tensor.contiguous() for name, tensor in wider.items()}


def _group_places(known: Schema, wanted: Schema) -> list[int]:
    """Where each known group of commands stands among the wanted ones."""
    return [
        next(place for place, members in enumerate(wanted.command_groups) if group[0] in members)
        for group in known.command_groups
    ]


def _columns(places: range | list[int], count: int, blocks: int) -> list[int]:
    """Where these lie in so many blocks of `count` columns."""
    return [block * count + place for block in range(blocks) for place in places]


def _spread(weight: Tensor, columns: list[int], count: int) -> Tensor:
    """The columns at their new places, zeros between them."""
    wider = weight.new_zeros(*weight.shape[:-1], count)
    wider[..., columns] = weight
    return wider


def _with_exponents(outputs: Tensor, movers: int, places: list[int], groups: int, movers_begin: float = 0.0) -> Tensor:
    """Outputs of the head along the last axis, the exponents, which come last, with those of new groups between them.

    There is one for what stands and one for each of the movers, for every group.
    """
    held = (movers + 1) * len(places)
    others, exponents = torch.split(outputs, [outputs.shape[-1] - held, held], -1)
    wider = outputs.new_zeros(*outputs.shape[:-1], movers + 1, groups)
    wider[..., 1:, :] = movers_begin
    wider[..., places] = torch.unflatten(exponents, -1, (movers + 1, len(places)))
    return torch.cat([others, wider.flatten(-2)], -1)
