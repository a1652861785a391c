"""Machines at work become tables: the rows that a controller writes of a shift, cut into sessions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from crossfeed.errors import MachineError
from crossfeed.logs.table import Group, Table
from crossfeed.sim.factory.draw import draw_machine
from crossfeed.sim.factory.habits import Dial, Habits, draw_habits
from crossfeed.sim.factory.motors import Dice, dice, fleet_schema, log_uniform
from crossfeed.sim.factory.parts import draw_piece
from crossfeed.sim.factory.people import Stint, draw_person, work
from crossfeed.sim.factory.signals import Signals
from crossfeed.sim.physics.drives import decay, lag
from crossfeed.sim.physics.parameters import RAD_PER_RPM, Floats
from crossfeed.sim.physics.rollout import SimulatedMachine

VERSION = 3  # of what a seed means; another one makes other machines
SHORTEST = 64  # rows of a session
_PIECES = (2, 5)
_RUN = 900.0  # s after which the next stint begins a new run
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
    written: Floats = values.mean(axis=1)
    if dial.delay:
        written = np.concatenate((np.repeat(written[:1], dial.delay), written[: -dial.delay]))
    return written + 0.0


def _kept(values: Floats, band: float) -> Floats:
    """The last value that was told, until the true one is more than a band away from it."""
    kept: list[float] = []
    last = float(values.flat[0])
    for value in values.ravel().tolist():
        if abs(value - last) > band:
            last = value
        kept.append(last)
    return np.array(kept).reshape(values.shape)


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
    commands = np.column_stack([polled(values, rows, ratio, habits.polls).mean(axis=1) for values in speeds])
    commands[:, 0] = np.rint(np.abs(commands[:, 0]) if habits.unsigned_feeds else commands[:, 0])
    if habits.command_step:
        commands[:, 1:] = np.rint(commands[:, 1:] / habits.command_step) * habits.command_step
    if habits.unsigned_feeds:
        commands[:, 1:] = np.abs(commands[:, 1:])
    if signals.machine.kind.turning:
        commands[:, 2] = 0.0
    return commands + 0.0


@dataclass(frozen=True)
class MachineLog:
    """What one machine left behind."""

    name: str
    period: float
    sessions: tuple[tuple[str, str, int, int], ...]  # (run, program, first row, end)
    sensors: Floats  # (rows, C)
    commands: Floats  # (rows, 4)
    facts: dict[str, Any]  # kind, controller and rating plate


def draw_log(seed: int, number: int, minutes: float) -> MachineLog:
    """Machine `number` of the fleet of a seed at work for so many minutes."""
    machine = draw_machine(seed, number)
    habits = draw_habits(machine, dice(seed, number, "habits"))
    hands = dice(seed, number, "people")
    pieces = [
        cache(partial(draw_piece, machine, dice(seed, number, "parts", item)))
        for item in range(int(hands.integers(*_PIECES)))
    ]
    shift = work(machine, pieces, draw_person(hands, busy=habits.family == "testbed"), minutes * 60, hands)
    simulated = SimulatedMachine(machine.parameters, machine.time_step)
    physics = dice(seed, number, "physics")
    trace, _ = simulated.run(shift.inputs, simulated.rest(int(physics.integers(2**32))))
    signals = Signals.of(machine, trace, shift.awake, physics, habits.load_of, habits.shaft_power)
    sensors, commands = logged_rows(signals, habits, physics)
    ratio = round(machine.period / machine.time_step)
    sessions = _sessions(shift.stints, ratio, len(sensors), round(_RUN / machine.period), habits.only_running)
    facts = {
        "kind": machine.kind.name,
        "controller": habits.family,
        "spindle_power_kw": round(machine.spindle_power / 1000, 3),
        "top_speed_rpm": machine.parameters.spindle.speed_limit,
        "rapid_mm_min": machine.parameters.x.feed_limit,
        "sensors": int(np.isfinite(sensors).any(axis=0).sum()),
    }
    return MachineLog(machine.name, machine.period, sessions, sensors, commands, facts)


def draw_table(seed: int, numbers: Sequence[int], minutes: float) -> list[Table]:
    """The logs of some machines of the fleet: one table for each sampling period that occurs among them."""
    if seed < 0 or not numbers or min(numbers) < 0:
        raise MachineError("Seeds and machine numbers begin at 0.", expected="a seed >= 0 and at least one number >= 0")
    if not 2 <= minutes <= 24 * 60:
        raise MachineError(f"A log of {minutes:g} minutes.", expected="2 minutes to a day")
    logs = [draw_log(seed, number, minutes) for number in numbers]
    return [
        join([log for log in logs if log.period == period], period, {"seed": seed, "minutes": minutes})
        for period in sorted({log.period for log in logs})
    ]


def join(logs: Sequence[MachineLog], period: float, facts: dict[str, Any]) -> Table:
    """The logs of machines with one sampling period as one table."""
    groups, times, sensors, commands = [], [], [], []
    position = 0
    for log in logs:
        for number, (run, program, first, end) in enumerate(log.sessions, start=1):
            groups.append(Group(log.name, f"{run}_{number:03d}", run, program, position, position + end - first))
            position += end - first
            times.append(np.arange(first + 1, end + 1) * period)
            sensors.append(log.sensors[first:end])
            commands.append(log.commands[first:end])
    manifest = {
        "source": "crossfeed fleet",
        "version": VERSION,
        "period": period,
        **facts,
        "machines": {log.name: log.facts for log in logs},
    }
    return Table(
        schema=fleet_schema(),
        groups=tuple(groups),
        time=np.concatenate(times),
        sensors=np.concatenate(sensors),
        commands=np.concatenate(commands),
        period=period,
        manifest=manifest,
    )


def _sessions(
    stints: Sequence[Stint], ratio: int, rows: int, longest: int, only_running: bool
) -> tuple[tuple[str, str, int, int], ...]:
    """Stretches of rows that belong together: each program alone, or everything until the log is cut."""
    if only_running:
        parts = [
            (stint.program, stint.start // ratio, min(stint.stop // ratio, rows)) for stint in stints if stint.program
        ]
        kept = [part for part in parts if part[2] - part[1] >= SHORTEST]
        if kept:
            return tuple((f"run_{n:02d}", program, first, end) for n, (program, first, end) in enumerate(kept, start=1))
    sessions: list[tuple[str, str, int, int]] = []
    first, names = 0, list[str]()
    for stint in stints:
        end = min(stint.stop // ratio, rows)
        names += [stint.program] if stint.program else []
        if end - first >= longest or (stint is stints[-1] and end > first):
            sessions.append((f"run_{len(sessions) + 1:02d}", names[0] if names else "standing", first, end))
            first, names = end, []
    return tuple(sessions)
