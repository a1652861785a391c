"""A machine's log: the rows that its controller writes of a shift."""

import numpy as np

from crossfeed.fleet.dice import Dice, log_uniform
from crossfeed.fleet.habits import Dial, Habits
from crossfeed.fleet.schema import fleet_schema
from crossfeed.fleet.signals import Signals
from crossfeed.machines.simulated.filters import decay, lag
from crossfeed.machines.simulated.noise import Floats
from crossfeed.machines.simulated.parameters import RAD_PER_RPM

_QUICK = ("current", "torque", "power", "voltage", "load", "depth")  # details that pass the drive's smoothing
_LONGEST_GAP = 12  # rows
_STANDING = 0.05  # mm/s


def logged_rows(signals: Signals, habits: Habits, draw: Dice) -> tuple[Floats, Floats]:
    """Sensors (rows, C) and commands (rows, 4) in the schema's order; NaN where nothing is shown."""
    schema = fleet_schema()
    ratio = round(signals.machine.period / signals.trace.time_step)
    rows = len(signals.trace) // ratio
    sensors = np.full((rows, len(schema.sensors)), np.nan)
    column = {name: index for index, name in enumerate(schema.sensor_names)}
    smooth = decay(signals.trace.time_step, habits.smoothing)
    for name, dial in habits.dials.items():
        values = signals(name)
        if smooth and name.endswith(_QUICK):
            values, _ = lag(values, smooth, smooth * float(values[0]))
        sensors[:, column[name]] = as_written(polled(values, rows, ratio, habits.polls), dial, draw)
    for name, (source, factor) in habits.others.items():
        sensors[:, column[name]] = sensors[:, column[source]] * factor
    for name in habits.hidden:
        sensors[:, column[name]] = np.nan
    _drop_out(sensors, habits.gaps * rows * signals.machine.period / 3600, draw)
    return sensors, _commands(signals, habits, rows, ratio)


def polled(values: Floats, rows: int, ratio: int, polls: int) -> Floats:
    """The values (rows, looks) that a controller sees in each row; with no polls the mean of all."""
    whole = values[: rows * ratio].reshape(rows, ratio)
    if polls == 0:
        return np.asarray(whole.mean(axis=1, keepdims=True))
    moments = (np.arange(1, min(polls, ratio) + 1) * ratio) // min(polls, ratio) - 1
    return whole[:, moments]


def as_written(looks: Floats, dial: Dial, draw: Dice) -> Floats:
    """One value for each row, as the controller writes it."""
    noise = draw.standard_normal(looks.shape)
    values = looks * dial.factor
    values = values + dial.offset + (dial.noise + dial.grain * np.abs(values)) * noise
    if dial.unsigned:
        values = np.abs(values)
    if dial.floor:
        values = np.where(np.abs(values) < dial.floor, 0.0, values)
    values = np.minimum(values, dial.highest)
    if dial.band:
        values = _kept(values, dial.band)
    if dial.step:
        values = np.rint(values / dial.step) * dial.step
    if dial.digits:
        values = _significant(values, dial.digits)
    told: Floats = values.mean(axis=1)
    if dial.delay:
        told = np.concatenate((np.repeat(told[:1], dial.delay), told[: -dial.delay]))
    return told + 0.0


def _kept(values: Floats, band: float) -> Floats:
    """The last value that was told, until the true one is more than a band away from it."""
    told: list[float] = []
    last = float(values.flat[0])
    for value in values.ravel().tolist():
        if abs(value - last) > band:
            last = value
        told.append(last)
    return np.array(told).reshape(values.shape)


def _significant(values: Floats, digits: int) -> Floats:
    """Rounded to so many significant digits."""
    step = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(values), 1e-12))) - digits + 1)
    return np.asarray(np.rint(values / step) * step)


def _drop_out(sensors: Floats, expected: float, draw: Dice) -> None:
    """Short gaps, in one sensor or in all of them at once."""
    present = np.flatnonzero(np.isfinite(sensors).any(axis=0))
    for _ in range(int(draw.poisson(expected))):
        first, long = int(draw.integers(len(sensors))), round(log_uniform(draw, 1, _LONGEST_GAP))
        columns = present if draw.random() < 0.2 else draw.choice(present, 1)
        sensors[first : first + long, columns] = np.nan


def _commands(signals: Signals, habits: Habits, rows: int, ratio: int) -> Floats:
    """Set-points, or the actual speeds that stand in for them."""
    if habits.measured_commands:
        moving = np.abs(signals.trace.physics.axis_velocity) > _STANDING  # what stands is told to stand
        speeds = [signals.trace.physics.spindle_speed / RAD_PER_RPM, *(moving * signals.axis_velocity * 60)]
    else:
        speeds = list(signals.trace.commands.T)
    told = np.column_stack([polled(values, rows, ratio, habits.polls).mean(axis=1) for values in speeds])
    told[:, 0] = np.rint(np.abs(told[:, 0]) if habits.unsigned_feeds else told[:, 0])
    if habits.command_step:
        told[:, 1:] = np.rint(told[:, 1:] / habits.command_step) * habits.command_step
    if habits.unsigned_feeds:
        told[:, 1:] = np.abs(told[:, 1:])
    if signals.machine.kind.turning:
        told[:, 2] = 0.0
    return told + 0.0
