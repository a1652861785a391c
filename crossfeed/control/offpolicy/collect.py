"""Runs with a safe dither: on the simulator, and the recipe for a shop floor.

The recipe: at the start of each stretch turn the feed knob to the intended override plus a normal number of 2 to 5 %,
never beyond what the task allows, and downwards only where the last stretch used more than 90 % of a limit; write both
the intended override and the dither down. Each run is a whole program.
"""

import numpy as np

from crossfeed.control.limits import highest_by_row
from crossfeed.control.machine import MachineRun, Workpiece
from crossfeed.control.offpolicy.log import DecisionLog
from crossfeed.control.offpolicy.policy import LinearPolicy
from crossfeed.control.task import Task
from crossfeed.control.timeline import Timeline
from crossfeed.errors import ConfigError
from crossfeed.progress import progress
from crossfeed.schema import canonical, conversion

FEATURES = ("load", "before")  # load of the last stretch over its usual one, and the override of the last stretch
PENALTY = 5.0  # s for each second above a limit


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
    kilowatts = task.objective.base_load + sum(
        float(truth_RC[:, names.index(channel.name)].mean()) * conversion(channel.unit, "kW").scale
        for channel in canonical().sensors
        if channel.quantity == "power"
    )
    passed = 0
    for sensor, highest_T in highest_by_row(task.limits_of(canonical()), timeline.tool_T).items():
        passed += int((truth_RC[:, names.index(sensor)] > highest_T[edge - 1]).sum())
    cost = task.time_price * seconds + task.energy_price * kilowatts * seconds / 3600.0 + PENALTY * passed
    return -cost, float(truth_RC[:, names.index("spindle_torque")].mean()) / 10.0
