"""The best that could be had: plans on the simulator itself, with its noise, from its own state.

Start at the highest feed everywhere, run the program, turn down where a limit was passed, up where there is room, and
keep the cheapest run that passed limits no more often than the program as written.
"""

from dataclasses import replace

import numpy as np

from crossfeed.control.controllers import AsWritten, PlannedKnobs
from crossfeed.control.decision import reachable
from crossfeed.control.limits import highest_by_row
from crossfeed.control.machine import Workpiece
from crossfeed.control.task import Task
from crossfeed.control.timeline import Timeline
from crossfeed.control.trial import Trial, TrialStart, trial
from crossfeed.schema import canonical

_ROUNDS = 7
_ROOM = 0.01  # below the limit, and as much again after every round that passed it too often
_POWER = 0.78  # how loads grow with the feed; only the size of a correction depends on it


def oracle(piece: Workpiece, timeline: Timeline, task: Task, past: TrialStart, rounds: int = _ROUNDS) -> Trial:
    """The cheapest run found with the truth at hand; dearer than the program as written only to keep limits."""
    best = trial(piece, timeline, task, AsWritten(), past)
    allowed, free_T = best.passed, timeline.free(task)
    wanted_T, spindle_T = np.where(free_T, task.feed.max, 1.0), np.ones(len(timeline))
    room = _ROOM
    for _ in range(rounds):
        feed_T, _ = reachable(timeline, wanted_T, spindle_T, task, (1.0, 1.0))
        run = trial(piece, timeline, task, PlannedKnobs("oracle", feed_T, spindle_T), past)
        if run.passed <= allowed and (run.cost < best.cost or run.passed < best.passed):
            best, allowed = run, run.passed
        elif run.passed > allowed:
            room += _ROOM
        used_T = _used(run, timeline, task)
        factor_T = np.clip((1.0 - room) / np.maximum(used_T, 1e-6), 0.3, 3.0) ** (1.0 / _POWER)
        wanted_T = np.where(free_T, np.clip(feed_T * factor_T, task.feed.min, task.feed.max), 1.0)
    return replace(best, controller="oracle")


def _used(run: Trial, timeline: Timeline, task: Task) -> np.ndarray:
    """The largest part of a limit that was used at every place, its neighbours included; small where there is none."""
    schema = canonical()
    used_T = np.full(len(timeline), 1e-6)
    before_R = np.minimum(run.position.astype(int), len(timeline) - 1)
    after_R = np.minimum(np.append(run.position[1:], len(timeline)).astype(int), len(timeline) - 1)
    for sensor, highest_T in highest_by_row(task.limits_of(schema), timeline.tool_T).items():
        load_R = np.array([row.truth[schema.sensor_names.index(sensor)] for row in run.rows])
        for first, last, load in zip(before_R, after_R, load_R):
            part = slice(first, last + 1)
            used_T[part] = np.maximum(used_T[part], load / highest_T[part])
    return np.where(timeline.cutting, used_T, 1e-6)
