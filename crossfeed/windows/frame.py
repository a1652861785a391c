"""A machine's own frame: its sensors and commands in units of what is usual on this very machine.

One machine's spindle takes 100 W, another's 20 kW. A model that is to read both must see them alike, so each machine is
measured by its own root mean square while it is commanded to move, seen from the physical zero where there is one: then
zero stays zero, a stop means the same everywhere, and idle hours change nothing. Where a short history says little,
what is usual on other machines fills in; it says little about a drive that never moved in it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from crossfeed.logs.table import Group, Table
from crossfeed.schema import QUANTITIES, Channel, Schema, conversion
from crossfeed.windows.normalise import Normaliser

WEIGHT = 32.0  # rows at work that count as much as what is usual elsewhere
AT_REST = 1 / 64  # of a row at work counts for a drive that never moved: it has shown its noise alone
FAR = 4.0  # standard deviations from zero at which a quantity nobody knows is seen from its mean
FINEST = 0.05  # of that mean is the smallest scale it is seen in

FIRST_SHARE = 0.1  # of each run: what tells a machine's frame where nothing else is said
FEWEST_ROWS = 32  # of each run that are looked at, however short it is


def first_rows(groups: Sequence[Group], share: float = FIRST_SHARE) -> np.ndarray:
    """The numbers of the first rows of each run: a share of it, but at least a few."""
    ends = [group.start + min(len(group), max(FEWEST_ROWS, round(share * len(group)))) for group in groups]
    return np.concatenate([np.arange(group.start, end) for group, end in zip(groups, ends, strict=True)])


def fit_frame(
    schema: Schema, sensors: np.ndarray, commands: np.ndarray, usual: Mapping[str, float] | None = None
) -> Normaliser:
    """The frame of a machine from rows of its history (N, C) and (N, A); absent entries are NaN.

    `usual` has the scales of other machines by quantity and place, in the units of the schema's quantities.
    """
    scales = usual or {}
    location, scale, unseen = np.zeros(len(schema.sensors)), np.ones(len(schema.sensors)), []
    for column, channel in enumerate(schema.sensors):
        present = np.isfinite(sensors[:, column])
        if present.any():
            moved, own_moves = (rows[present] for rows in _moved(schema, channel, commands))
            location[column], scale[column] = _measured(
                channel, sensors[present, column], moved, own_moves, _usual(channel, scales)
            )
        else:
            unseen.append(channel.name)
    fitted_on = hashlib.sha256(np.nan_to_num(np.concatenate([sensors, commands], 1)).tobytes()).hexdigest()
    return _frame(schema, location, scale, _command_scales(schema, commands, scales), tuple(unseen), fitted_on)


def _measured(
    channel: Channel, values: np.ndarray, at_work: np.ndarray, own_moves: np.ndarray, usual: float | None
) -> tuple[float, float]:
    """Where a sensor is seen from and by what it is measured, from its values and from who was moved in their rows."""
    mean, spread = float(values.mean()), float(values.std())
    if not channel.has_zero:
        return mean, _scale(spread, len(values), usual)
    if channel.quantity not in QUANTITIES and abs(mean) > FAR * spread:
        return mean, max(spread, FINEST * abs(mean))
    seen = values[at_work] if at_work.any() or usual is not None else values
    size = float(np.sqrt(np.mean(seen**2))) if len(seen) else 0.0
    shown = bool(own_moves.any()) or usual is None or size >= usual
    return 0.0, _scale(size, len(seen) if shown else AT_REST * len(seen), usual)


def _moved(schema: Schema, channel: Channel, commands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In which rows anything is commanded to move, and in which the channel's own drive, where it is known, is."""
    moving = _moving(schema)
    own = [number for number in moving if channel.place and schema.commands[number].place == channel.place]
    any_moves, own_moves = ((np.nan_to_num(commands[:, which]) != 0.0).any(axis=1) for which in (moving, own or moving))
    return any_moves, own_moves


def placeholder_frame(schema: Schema) -> Normaliser:
    """The frame of no machine in particular: what a model of many machines carries until it meets one."""
    sensors, commands = len(schema.sensors), len(schema.commands)
    return _frame(schema, np.zeros(sensors), np.ones(sensors), np.ones(commands), (), "")


def _frame(
    schema: Schema,
    location: np.ndarray,
    scale: np.ndarray,
    command_scale: np.ndarray,
    unseen: tuple[str, ...],
    fitted_on: str,
) -> Normaliser:
    return Normaliser(
        method="frame",
        floor=0.0,
        sensor_names=schema.sensor_names,
        command_names=schema.command_names,
        sensor_location=location,
        sensor_scale=scale,
        command_location=np.zeros(len(schema.commands)),
        command_scale=command_scale,
        unseen=unseen,
        fitted_on=fitted_on,
    )


def framed(table: Table, frames: Mapping[str, Normaliser]) -> Table:
    """The table with every machine in its own frame and with time counted in rows."""
    sensors, commands = np.empty_like(table.sensors), np.empty_like(table.commands)
    for group in table.groups:
        rows, frame = slice(group.start, group.stop), frames[group.machine]
        sensors[rows] = frame.transform_sensors(table.sensors[rows])
        commands[rows] = frame.transform_commands(table.commands[rows])
    return replace(table, sensors=sensors, commands=commands, time=table.time / table.period, period=1.0)


def usual_scales(schema: Schema, frames: Sequence[Normaliser]) -> dict[str, float]:
    """What is usual among machines: the geometric mean of their scales, by quantity and place."""
    logarithms_by_key: dict[str, list[float]] = {}
    for frame in frames:
        for channel, location, scale in zip(schema.sensors, frame.sensor_location, frame.sensor_scale, strict=True):
            if channel.name not in frame.unseen and not (channel.has_zero and location):
                logarithms_by_key.setdefault(_key(channel), []).append(np.log(scale * _factor(channel)))
        for channel, scale in zip(schema.commands, frame.command_scale, strict=True):
            logarithms_by_key.setdefault(channel.quantity, []).append(np.log(scale * _factor(channel)))
    return {key: float(np.exp(np.mean(logarithms))) for key, logarithms in sorted(logarithms_by_key.items())}


def _command_scales(schema: Schema, commands: np.ndarray, usual: Mapping[str, float]) -> np.ndarray:
    """One scale for all commands that act together, from the rows in which any of them is given."""
    scales = np.ones(len(schema.commands))
    for group in schema.command_groups:
        members, quantity = list(group), schema.commands[group[0]].quantity
        factors = np.array([_factor(schema.commands[number]) for number in members])
        together = np.sqrt(np.nansum((commands[:, members] * factors) ** 2, axis=1))
        moving = together[together > 0.0]
        size = float(np.sqrt(np.mean(moving**2))) if len(moving) else 0.0
        scales[members] = _scale(size, len(moving), usual.get(quantity)) / factors
    return scales


def _moving(schema: Schema) -> list[int]:
    """The commands that tell whether the machine is at work; all of them where none is a speed."""
    speeds = [number for number, channel in enumerate(schema.commands) if channel.moves]
    return speeds or list(range(len(schema.commands)))


def _scale(size: float, rows: float, usual: float | None) -> float:
    """Between what was seen and what is usual, by the logarithm, the more rows the nearer to what was seen."""
    if usual is None:
        return size or 1.0
    if size == 0.0:
        return usual
    return float(np.exp((rows * np.log(size) + WEIGHT * np.log(usual)) / (rows + WEIGHT)))


def _usual(channel: Channel, scales: Mapping[str, float]) -> float | None:
    scale = scales.get(_key(channel))
    return None if scale is None else scale / _factor(channel)


def _key(channel: Channel) -> str:
    return f"{channel.quantity} {channel.place}".strip()


def _factor(channel: Channel) -> float:
    """From the channel's unit to the usual one of its quantity; 1 for quantities of a user's own."""
    return conversion(channel.unit, QUANTITIES[channel.quantity]).scale if channel.quantity in QUANTITIES else 1.0
