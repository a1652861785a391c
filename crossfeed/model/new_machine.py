"""A model of many machines meets one: it takes over that machine's list of sensors, its commands and its frame.

Only networks that know channels by quantity and place can do that; their weights do not depend on the list.
"""

from collections.abc import Mapping
from typing import TypeGuard

from crossfeed.errors import ConfigError, TableError
from crossfeed.logs.align import align
from crossfeed.logs.table import Table
from crossfeed.model.sensors.config import SensorConfig
from crossfeed.model.sensors.further_commands import with_further_commands
from crossfeed.model.sensors.members import detail
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Channel, Schema
from crossfeed.windows.frame import FIRST_SHARE, first_rows, fit_frame
from crossfeed.windows.normalise import Normaliser


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
