"""Plans and dithered policies tried on a simulated machine: what a program took, and what it passed.

The recipe of a safe dither, here as on a shop floor: at the start of each stretch turn the feed knob to the intended
override plus a normal number of 2 to 5 %, never beyond what the task allows, and downwards only where the last stretch
used more than 90 % of a limit; write both the intended override and the dither down. Each run is a whole program.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.control.machine import MachineRow, MachineRun, Workpiece, drive_kilowatts
from crossfeed.control.offpolicy import DecisionLog, LinearPolicy
from crossfeed.control.score import Decision, reachable
from crossfeed.control.task import Task, highest_by_row
from crossfeed.control.timeline import Timeline
from crossfeed.errors import ConfigError
from crossfeed.progress import progress
from crossfeed.schema import canonical
from crossfeed.sim.physics.dynamics import SimulationState

FEATURES = ("load", "before")  # load of the last stretch over its usual one, and the override of the last stretch
PENALTY = 5.0  # s for each second above a limit
IDLE = 40  # rows before a program, so that a model has a history
_WORTHLESS = 1e-2  # s that a stretch saves below which leaving it alone was right
_LONGEST = 4.0  # times the program as written, after which a controller is given up


Knobs = tuple[float, float]
# What turns the knobs once a period: position, knobs so far and rows so far -> the knobs from now on.
Act = Callable[[float, Knobs, Sequence[MachineRow]], Knobs]


@dataclass(frozen=True, eq=False)
class Trial:
    """One run of one program, by the simulator's truth."""

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


def idle_start(piece: Workpiece, seed: int = 0) -> tuple[list[MachineRow], SimulationState]:
    """The rows and the state of a machine that has stood idle for a while."""
    run = MachineRun(piece, seed=seed)
    return run.stand(IDLE), run.state


def along(feed_T: np.ndarray, spindle_T: np.ndarray) -> Act:
    """Knobs that were decided beforehand, place by place."""

    def act(position: float, _knobs: Knobs, _rows: Sequence[MachineRow]) -> Knobs:
        index = min(int(position), len(feed_T) - 1)
        return float(feed_T[index]), float(spindle_T[index])

    return act


def trial(piece: Workpiece, timeline: Timeline, task: Task, act: Act, state: SimulationState) -> Trial:
    """Run a program to its end from a state of the machine."""
    run, rows = MachineRun(piece, state), list[MachineRow]()
    turned, positions, knobs = [], [], (1.0, 1.0)
    while not run.done and len(rows) < _LONGEST * len(timeline) + 10:
        knobs = act(run.position, knobs, rows)
        positions.append(run.position)
        turned.append(knobs)
        rows.append(run.step(*knobs))
    return account(timeline, task, rows, np.array(turned), np.array(positions))


def account(
    timeline: Timeline, task: Task, rows: Sequence[MachineRow], knobs_R2: np.ndarray, position_R: np.ndarray
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
    return Trial(seconds, energy, cost, above_R & cutting_R, int(cutting_R.sum()), tuple(rows), knobs_R2, position_R)


def _energy_of_drives(rows: Sequence[MachineRow]) -> np.ndarray:
    """Wh of every row (R,)."""
    return np.array([1000.0 * drive_kilowatts(row.truth) * row.seconds / 3600.0 for row in rows])


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


def rehearse(program: Path, machine: str, task: Task, decision: Decision, seed: int = 0) -> dict[str, Any]:
    """Time, energy and passed limits as written and as planned, and how many stretches were decided rightly.

    Acting was right where it saved something and passed no limit; leaving alone was right where going as fast as
    allowed would have saved nothing or passed a limit.
    """
    piece = Workpiece.on(machine, program)
    timeline = Timeline.of(piece.program, canonical(), 1.0, piece.motion_limits)
    (_, state), ones = idle_start(piece, seed), np.ones(len(timeline))
    # Motion limits of another machine make a program longer or shorter by a few places.
    fitted = np.minimum(np.arange(len(timeline)), len(decision.feed_T) - 1)
    free_T = timeline.free(task)
    fast_T, _ = reachable(timeline, np.where(free_T, task.feed.max, 1.0), ones, task, (1.0, 1.0))
    knobs = [(ones, ones), (decision.feed_T[fitted], decision.spindle_T[fitted]), (fast_T, ones)]
    runs = [trial(piece, timeline, task, along(*each), state) for each in knobs]
    written, planned, fastest = (cost_by_place(run, timeline, task) for run in runs)
    passed_before, passed_after, passed_fast = (passed_by_place(run, timeline, task) for run in runs)
    counts = {"acted": 0, "acted_rightly": 0, "left_alone": 0, "left_rightly": 0}
    for choice in decision.choices:
        places = slice(choice.first, min(choice.last + 1, len(timeline)))
        if choice.verdict == "as written":
            worthless = not free_T[places].any() or float(written[places].sum() - fastest[places].sum()) < _WORTHLESS
            counts["left_alone"] += 1
            counts["left_rightly"] += bool(worthless or passed_fast[places].any())
        else:
            saved = float(written[places].sum() - planned[places].sum())
            kept = passed_after[places].sum() <= passed_before[places].sum()
            counts["acted"] += 1
            counts["acted_rightly"] += bool(kept and (saved > 0.0 or choice.verdict == "slower"))
    totals = {
        name: {"seconds": run.seconds, "energy": run.energy, "passed": run.passed, "cutting": run.cutting}
        for name, run in zip(("as_written", "planned"), runs)
    }
    return {"machine": machine, **totals, "gain": runs[0].cost - runs[1].cost, **counts}


def collect(
    piece: Workpiece, timeline: Timeline, task: Task, policy: LinearPolicy, runs: int,
    stretch: int = 20, seed: int = 0, mirrored: bool = False,
) -> DecisionLog:  # fmt: skip
    """Run a program many times under a dithered policy; the same call with another policy is the truth about it.

    `mirrored` runs come in pairs with opposite dither, whose mean is nearly free of it: for truths, not for logs.
    """
    if runs < 1 or stretch < 1:
        raise ConfigError(f"{runs} runs in stretches of {stretch} places.", expected="at least one of each")
    edges = [*range(stretch, len(timeline), stretch), len(timeline)]
    shape = (runs, len(edges))
    state, override, reward = np.zeros((*shape, len(FEATURES))), np.empty(shape), np.empty(shape)
    with progress("Running the program with dither", total=runs) as bar:
        for number in range(runs):
            draw = np.random.default_rng([seed, number // 2 if mirrored else number])
            side = -1.0 if mirrored and number % 2 else 1.0
            run = MachineRun(piece, seed=int(draw.integers(2**31)))
            load, before = 0.0, 1.0
            for index, edge in enumerate(edges):
                state[number, index] = load, before - 1.0
                mean = float(policy.mean(state[number, index]))
                wanted = mean + side * policy.spread * float(draw.standard_normal())
                override[number, index] = before = float(np.clip(wanted, task.feed.min, task.feed.max))
                seconds, truth = run.stretch(edge * timeline.period, before, 1.0)
                reward[number, index], load = _earned(seconds, truth, timeline, task, edge)
            bar.advance()
    mean_NH = np.stack([policy.mean(state[:, index]) for index in range(len(edges))], 1)
    return DecisionLog(FEATURES, state, override, reward, mean_NH, np.full(shape, policy.spread))


def _earned(seconds: float, truth_RC: np.ndarray, timeline: Timeline, task: Task, edge: int) -> tuple[float, float]:
    """The reward of a stretch, its time and energy counted against it, and its mean spindle torque in 10 N m."""
    names = canonical().sensor_names
    kilowatts = task.objective.base_load + float(drive_kilowatts(truth_RC).mean())
    passed = 0
    for sensor, highest_T in highest_by_row(task.limits_of(canonical()), timeline.tool_T).items():
        passed += int((truth_RC[:, names.index(sensor)] > highest_T[edge - 1]).sum())
    cost = task.time_price * seconds + task.energy_price * kilowatts * seconds / 3600.0 + PENALTY * passed
    return -cost, float(truth_RC[:, names.index("spindle_torque")].mean()) / 10.0
