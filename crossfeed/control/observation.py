"""What a policy sees, and what its action means: the same numbers from the machine and from the model.

B situations, L limits. An action of 0 leaves a knob at 100 %, -1 and 1 are the ends of its range.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crossfeed.control.limits import Limit, highest_by_row, sensors_of
from crossfeed.control.task import Task
from crossfeed.control.timeline import Timeline

AHEAD = 8  # places of the program that are seen
_FEED, _SPEED = 5000.0, 10_000.0  # mm/min and rpm that count as one


@dataclass(frozen=True, eq=False)
class PolicyFeatures:
    """A timeline as a policy sees it: one row of features for every place, limits included."""

    plan_TF: np.ndarray
    highest_TL: np.ndarray  # infinite where there is no limit

    @classmethod
    def of(cls, timeline: Timeline, limits: Sequence[Limit]) -> "PolicyFeatures":
        feeds = [column for column in range(timeline.commands_TA.shape[1]) if column != timeline.spindle_column]
        path_T = np.sqrt((timeline.commands_TA[:, feeds] ** 2).sum(axis=1)) / _FEED
        speed_T = timeline.commands_TA[:, timeline.spindle_column] / _SPEED
        now = np.column_stack([timeline.feed_share_T, path_T, speed_T])
        plan_TF = np.column_stack([now, _ahead(now)])
        by_sensor = highest_by_row(limits, timeline.tool_T)
        columns = [by_sensor[sensor] for sensor in sensors_of(limits)]
        return cls(plan_TF, np.column_stack(columns) if columns else np.empty((len(timeline), 0)))

    def __len__(self) -> int:
        return len(self.plan_TF)


def size(limits: Sequence[Limit]) -> int:
    """How many numbers a policy sees."""
    return 2 + 6 + len(sensors_of(limits))


def observe(plan_BF: np.ndarray, highest_BL: np.ndarray, load_BL: np.ndarray, knobs_B2: np.ndarray) -> np.ndarray:
    """Knobs, program now and ahead, and how much of every limit is used; bounded, so that nothing runs away."""
    with np.errstate(invalid="ignore"):
        used_BL = np.where(np.isfinite(highest_BL), load_BL / np.where(np.isfinite(highest_BL), highest_BL, 1.0), 0.0)
    seen = np.concatenate([knobs_B2 - 1.0, plan_BF, np.nan_to_num(used_BL)], axis=1)
    return np.asarray(np.clip(seen, -10.0, 10.0), dtype=np.float32)


def free_knobs(task: Task) -> tuple[int, ...]:
    """Which of feed and spindle an action sets."""
    return tuple(number for number, knob in enumerate((task.feed, task.spindle)) if knob.free)


def wanted_knobs(action_BN: np.ndarray, task: Task) -> np.ndarray:
    """The knob positions (B, 2) that actions ask for."""
    knobs_B2 = np.ones((len(action_BN), 2))
    for column, number in enumerate(free_knobs(task)):
        knob = (task.feed, task.spindle)[number]
        asked = np.clip(action_BN[:, column], -1.0, 1.0)
        knobs_B2[:, number] = 1.0 + np.where(asked > 0.0, asked * (knob.max - 1.0), asked * (1.0 - knob.min))
    return knobs_B2


def _ahead(now_TF: np.ndarray) -> np.ndarray:
    """The mean of each feature over the next places."""
    total = np.concatenate([np.zeros((1, now_TF.shape[1])), np.cumsum(now_TF, axis=0)])
    first = np.minimum(np.arange(len(now_TF)) + 1, len(now_TF) - 1)
    last = np.minimum(first + AHEAD, len(now_TF))
    return np.asarray((total[last] - total[first]) / (last - first)[:, None])
