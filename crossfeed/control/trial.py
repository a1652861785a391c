"""A controller on the simulated machine: what a program took, what it cost, and where it passed a limit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crossfeed.control.controllers import Controller, Moment
from crossfeed.control.limits import highest_by_row
from crossfeed.control.machine import MachineRow, MachineRun, Workpiece
from crossfeed.control.task import Task
from crossfeed.control.timeline import Timeline
from crossfeed.machines.simulated.state import SimulationState
from crossfeed.schema import canonical
from crossfeed.serving.measures import energies

IDLE = 40  # rows before a program, so that a model has a history
_LONGEST = 4.0  # times the program as written, after which a controller is given up


@dataclass(frozen=True, eq=False)
class Trial:
    """One run of one program under one controller, by the simulator's truth."""

    controller: str
    seconds: float
    energy: float  # Wh of drives and base load
    cost: float  # s
    above: np.ndarray  # (R,) rows in the cut above a limit
    cutting: int  # rows in the cut
    rows: tuple[MachineRow, ...]
    knobs: np.ndarray  # (R, 2)
    position: np.ndarray  # (R,) at the start of each row

    @property
    def passed(self) -> int:
        """How many rows in the cut were above a limit."""
        return int(self.above.sum())

    @property
    def sensors(self) -> np.ndarray:
        """What the log shows, (R, C)."""
        return np.array([row.sensors for row in self.rows])

    @property
    def commands(self) -> np.ndarray:
        return np.array([row.commands for row in self.rows])


@dataclass(frozen=True, eq=False)
class TrialStart:
    """The rows before a trial and the state they left the machine in."""

    sensors_RC: np.ndarray
    commands_RA: np.ndarray
    state: SimulationState


def idle_start(piece: Workpiece, seed: int = 0) -> TrialStart:
    """A machine that has stood idle for a while."""
    run = MachineRun(piece, seed=seed)
    stood = run.stand(IDLE)
    return TrialStart(np.array([row.sensors for row in stood]), np.array([row.commands for row in stood]), run.state)


def trial(piece: Workpiece, timeline: Timeline, task: Task, controller: Controller, past: TrialStart) -> Trial:
    """Run a program to its end; every controller meets the same machine in the same state."""
    run = MachineRun(piece, past.state)
    sensors, commands = list(past.sensors_RC), list(past.commands_RA)
    controller.start(timeline, task)
    rows: list[MachineRow] = []
    turned, positions, knobs = [], [], (1.0, 1.0)
    while not run.done and len(rows) < _LONGEST * len(timeline) + 10:
        moment = Moment(run.position, knobs, np.array(sensors[-256:]), np.array(commands[-256:]))
        knobs = controller.act(moment)
        positions.append(run.position)
        row = run.step(*knobs)
        rows.append(row)
        turned.append(knobs)
        sensors.append(row.sensors)
        commands.append(row.commands)
    return account(controller.name, timeline, task, rows, np.array(turned), np.array(positions))


def account(
    name: str, timeline: Timeline, task: Task, rows: Sequence[MachineRow], knobs_R2: np.ndarray, position_R: np.ndarray
) -> Trial:
    """Add up what the rows took; limits count where the whole row was in the cut."""
    lasted_R = np.array([row.seconds for row in rows])
    truth_RC = np.array([row.truth for row in rows])
    schema, seconds = canonical(), float(lasted_R.sum())
    energy = float(_energy_of_drives(rows).sum()) + task.objective.base_load * 1000.0 * seconds / 3600.0
    at_R = np.minimum(position_R.astype(int), len(timeline) - 1)
    after_R = np.minimum(np.append(position_R[1:], len(timeline)).astype(int), len(timeline) - 1)
    cutting_R = timeline.cutting[at_R] & timeline.cutting[after_R]
    above_R = np.zeros(len(rows), dtype=bool)
    for sensor, highest_T in highest_by_row(task.limits_of(schema), timeline.tool_T).items():
        above_R |= truth_RC[:, schema.sensor_names.index(sensor)] > highest_T[at_R]
    cost = task.time_price * seconds + task.energy_price * energy / 1000.0
    return Trial(
        name, seconds, energy, cost, above_R & cutting_R, int(cutting_R.sum()), tuple(rows), knobs_R2, position_R
    )


def _energy_of_drives(rows: Sequence[MachineRow]) -> np.ndarray:
    """Wh of every row (R,)."""
    powers = [channel.name for channel in canonical().sensors if channel.quantity == "power"]
    drawn_R1C = np.array([row.truth[None] * row.seconds for row in rows])
    return energies(drawn_R1C, canonical(), powers, 1.0)


def cost_by_place(run: Trial, timeline: Timeline, task: Task) -> np.ndarray:
    """What every place of the program cost (T,), in s; a row is shared out over the places it passed."""
    cost_T, drives_R = np.zeros(len(timeline)), _energy_of_drives(run.rows)
    ends = np.append(run.position[1:], len(timeline))
    for row, drives, begun, ended in zip(run.rows, drives_R, run.position, ends):
        energy = drives / 1000.0 + task.objective.base_load * row.seconds / 3600.0
        cost = task.time_price * row.seconds + task.energy_price * energy
        first, last = int(begun), min(int(np.ceil(ended)), len(timeline))
        share = np.minimum(np.arange(first, last) + 1.0, ended) - np.maximum(np.arange(first, last), begun)
        if len(share) and share.sum() > 0.0:
            cost_T[first:last] += cost * share / share.sum()
        else:
            cost_T[min(first, len(timeline) - 1)] += cost
    return cost_T


def passed_by_place(run: Trial, timeline: Timeline, task: Task) -> np.ndarray:
    """Whether a limit was passed at each place (T,) while it was cut."""
    schema, passed_T = canonical(), np.zeros(len(timeline), dtype=bool)
    ends = np.append(run.position[1:], len(timeline))
    for sensor, highest_T in highest_by_row(task.limits_of(schema), timeline.tool_T).items():
        column = schema.sensor_names.index(sensor)
        for row, begun, ended in zip(run.rows, run.position, ends):
            part = slice(int(begun), max(int(begun) + 1, int(np.ceil(ended))))
            passed_T[part] |= row.truth[column] > highest_T[part]
    return np.asarray(passed_T & timeline.cutting)
