"""Machines at work become tables: the part of the generator that needs numpy, scipy, pyarrow and pydantic only."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from crossfeed.errors import MachineError
from crossfeed.fleet.dice import dice
from crossfeed.fleet.draw import draw_machine
from crossfeed.fleet.habits import draw_habits
from crossfeed.fleet.log import logged_rows
from crossfeed.fleet.parts import draw_piece
from crossfeed.fleet.people import Stint, draw_person, work
from crossfeed.fleet.schema import fleet_schema
from crossfeed.fleet.signals import Signals
from crossfeed.ingest.table import Group, Table
from crossfeed.machines.simulated.noise import Floats
from crossfeed.machines.simulated.rollout import SimulatedMachine

VERSION = 3  # of what a seed means; another one makes other machines
SHORTEST = 64  # rows of a session
_PIECES = (2, 5)
_RUN = 900.0  # s after which the next stint begins a new run


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
