"""Many imagined machines at once: branches of a model under the knobs, in plain arrays, thousands of steps a second.

Each episode keeps to one member of the model; where the members disagree, turning a knob costs something. B episodes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from crossfeed.control.branches import Branches
from crossfeed.control.law import CuttingLaw
from crossfeed.control.limits import sensors_of
from crossfeed.control.observation import observe, wanted_knobs
from crossfeed.control.task import Task
from crossfeed.schema import Schema, conversion
from crossfeed.serving.measures import power_sensors

PENALTY = 5.0  # s for each second above a limit, and as much again for each limit's height above it
_DOUBTED = 1.0  # of the usual disagreement from which on it costs something
_DOUBT_PENALTY = 0.2  # s for each second with a knob fully turned at one further usual disagreement
_PERSISTENCE = 0.8


@dataclass(frozen=True, eq=False)
class Stepped:
    """What one period brought to every episode."""

    reward_B: np.ndarray
    done_B: np.ndarray
    info: dict[str, Any]


class Imagined:
    """The state of B episodes; `reset` and `step` change some or all of them."""

    def __init__(
        self, branches: Branches, law: CuttingLaw, task: Task, schema: Schema, count: int, seed: int = 0
    ) -> None:
        self.branches, self.law, self.task, self.schema = branches, law, task, schema
        self.limits, self.count, self.draw = task.limits_of(schema), count, np.random.default_rng(seed)
        courses = branches.courses
        self._plan = np.stack([mark.plan_TF for mark in branches.marks])
        self._highest = np.stack([mark.highest_TL for mark in branches.marks])
        self._feeding = np.stack([course.feed_share_T for course in courses])
        self._speed = np.stack([np.abs(course.commands_TA[:, course.spindle_column]) for course in courses])
        self._positions, self.period = self._plan.shape[1], courses[0].period
        self._limited = [branches.sensors.index(name) for name in sensors_of(self.limits)]
        self._powers = power_sensors(schema, np.isin(schema.sensor_names, branches.sensors))
        self.branch_B = np.zeros(count, dtype=int)
        self.member_B = np.zeros(count, dtype=int)
        self.rows_done_B = np.zeros(count)
        self.knobs_B2 = np.ones((count, 2))
        self._load_BP = np.zeros((count, len(branches.sensors)))
        self._noise_BP = np.zeros_like(self._load_BP)
        self.reset(np.ones(count, dtype=bool))

    def reset(self, which_B: np.ndarray) -> np.ndarray:
        """Begin new episodes: another branch, another member, knobs somewhere near 100 %."""
        count = int(which_B.sum())
        self.branch_B[which_B] = self.draw.integers(0, len(self.branches), count)
        self.member_B[which_B] = self.draw.integers(0, len(self.branches.mean_EBTP), count)
        self.rows_done_B[which_B] = 0.0
        self.knobs_B2[which_B] = 1.0
        self._load_BP[which_B] = self.branches.load_BP[self.branch_B[which_B]]
        self._noise_BP[which_B] = self.draw.standard_normal((count, self._noise_BP.shape[1]))
        return self.observation()

    def observation(self) -> np.ndarray:
        """What the policy sees of every episode."""
        at = self._at()
        return observe(
            self._plan[self.branch_B, at], self._highest[self.branch_B, at], self._load_BP[:, self._limited],
            self.knobs_B2,
        )  # fmt: skip

    def step(self, action_BN: np.ndarray) -> Stepped:
        """Turn the knobs as far as they can be turned in a period, and go on for it."""
        room = self.task.slew * self.period
        self.knobs_B2 = np.clip(wanted_knobs(action_BN, self.task), self.knobs_B2 - room, self.knobs_B2 + room)
        at, branch = self._at(), self.branch_B
        feeding_B, speed_B = self._feeding[branch, at], self._speed[branch, at]
        feed_B, spindle_B = np.where(feeding_B > 0.0, self.knobs_B2[:, 0], 1.0), self.knobs_B2[:, 1]
        keep = np.sqrt(1.0 - _PERSISTENCE**2)
        self._noise_BP = _PERSISTENCE * self._noise_BP + keep * self.draw.standard_normal(self._noise_BP.shape)
        nominal_BP = (
            self.branches.mean_EBTP[self.member_B, branch, at] + self.branches.spread_BTP[branch, at] * self._noise_BP
        )
        kilowatts_B, loads = np.full(self.count, self.task.objective.base_load), []
        for column, name in enumerate(self.branches.sensors):
            channel = self.schema.channel(name)
            load_B = self.law.expected(channel, nominal_BP[:, column], speed_B, feed_B, spindle_B)
            loads.append(load_B)
            if name in self._powers:
                kilowatts_B = kilowatts_B + load_B * conversion(channel.unit, "kW").scale
        self._load_BP = np.column_stack(loads)
        highest_BL = self._highest[branch, at]
        with np.errstate(invalid="ignore"):
            above_BL = np.where(np.isfinite(highest_BL), self._load_BP[:, self._limited] / highest_BL - 1.0, -1.0)
        above_B = np.where(feeding_B > 0.99, above_BL.max(axis=1, initial=-1.0), -1.0)
        pace_B = 1.0 / (1.0 - feeding_B + feeding_B / feed_B)
        self.rows_done_B = self.rows_done_B + pace_B
        energy_B = kilowatts_B * self.period / 3600.0
        doubt_B = self.branches.doubt_BT[branch, at]
        turned_B = np.abs(self.knobs_B2 - 1.0).max(axis=1)
        reward_B = self.task.time_price * self.period * (pace_B - 1.0) - self.task.energy_price * energy_B
        reward_B = reward_B - PENALTY * np.where(above_B > 0.0, 1.0 + above_B, 0.0)
        reward_B = reward_B - _DOUBT_PENALTY * turned_B * np.maximum(doubt_B - _DOUBTED, 0.0)
        done_B = self.rows_done_B >= self._positions
        info = {"disagreement": doubt_B, "passed": above_B > 0.0, "energy": energy_B, "member": self.member_B.copy()}
        return Stepped(reward_B, done_B, info)

    def _at(self) -> np.ndarray:
        return np.asarray(np.minimum(self.rows_done_B.astype(int), self._positions - 1))
