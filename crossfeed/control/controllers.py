"""Who turns the knobs: one interface for the program as written, fixed plans, the planner and learned policies.

A learned policy is a small network in one file: what it sees, what its action means, limits and slew rate built in. An
action of 0 leaves a knob at 100 %, -1 and 1 are the ends of its range. B situations, L limits, T places, R rows.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from crossfeed.control.earlier_runs import LoggedRows
from crossfeed.control.load_calibration import LoadCalibration
from crossfeed.control.load_forecast import CuttingLaw, LoadForecaster
from crossfeed.control.planner import OverridePlan, PlannerConfig, plan_ahead
from crossfeed.control.task import Task, highest_by_row, sensors_of
from crossfeed.control.timeline import Timeline
from crossfeed.errors import CheckpointError
from crossfeed.files import atomic_file
from crossfeed.model.world_model import WorldModel
from crossfeed.scenarios.measures import Limit
from crossfeed.schema import Schema

Knobs = tuple[float, float]
AHEAD = 8  # places of the program that are seen
_FEED, _SPEED = 5000.0, 10_000.0  # mm/min and rpm that count as one
_FORMAT = "crossfeed-policy/1"
_NEAR = 0.95  # of a limit, from which on the knob is not turned up


@dataclass(frozen=True, eq=False)
class Moment:
    """What is known when a knob may be turned."""

    position: float  # s of the program as written that are behind
    knobs: Knobs
    sensors_RC: np.ndarray  # all rows so far
    commands_RA: np.ndarray


class Controller:
    """Turns the knobs once a period; `start` comes before every program."""

    name: str

    def start(self, timeline: Timeline, task: Task) -> None:
        """Nothing to prepare."""

    def act(self, moment: Moment) -> Knobs:
        """The knobs from now on."""
        raise NotImplementedError


class AsWritten(Controller):
    """Leaves the knobs alone."""

    name = "as written"

    def act(self, moment: Moment) -> Knobs:  # noqa: ARG002
        return 1.0, 1.0


class PlannedKnobs(Controller):
    """Follows knobs that were decided beforehand, place by place."""

    def __init__(self, name: str, feed_T: np.ndarray, spindle_T: np.ndarray) -> None:
        self.name, self._feed_T, self._spindle_T = name, feed_T, spindle_T

    def act(self, moment: Moment) -> Knobs:
        index = min(int(moment.position), len(self._feed_T) - 1)
        return float(self._feed_T[index]), float(self._spindle_T[index])


class Planner(Controller):
    """Looks ahead every few seconds, with the model or an earlier run, and acts where that is surely better.

    `log` is what the machine did before: margins are learned from it, and earlier runs of the program are found in it.
    """

    def __init__(
        self, model: WorldModel, law: CuttingLaw, log: Sequence[LoggedRows],
        config: PlannerConfig | None = None, name: str = "planner",
    ) -> None:  # fmt: skip
        self.name = name
        self._model, self._law, self._log = model, law, tuple(log)
        self._config = config or PlannerConfig()

    def start(self, timeline: Timeline, task: Task) -> None:
        self._timeline, self._task = timeline, task
        self.decisions: list[tuple[float, OverridePlan]] = []
        self._from, self._until = 0.0, -1.0
        self._last: OverridePlan | None = None
        self._before: float | None = None
        self.calibration = LoadCalibration.of(self._model, self._law, timeline, task, self._log)

    def act(self, moment: Moment) -> Knobs:
        if self._before is not None:
            self.calibration.learn(self._before, moment.position, moment.knobs, moment.sensors_RC[-1])
        self._before = moment.position
        if moment.position >= self._until:
            self._decide(moment)
        assert self._last is not None
        decision = self._last.decision
        index = min(int(moment.position - self._from), len(decision.feed_T) - 1)
        return float(decision.feed_T[index]), float(decision.spindle_T[index])

    def _decide(self, moment: Moment) -> None:
        forecaster, horizon = None, self._config.horizon
        if self.calibration.has_runs:
            timeline = self._timeline.after(moment.position, horizon)
            forecast = self.calibration.from_runs(timeline, moment.position, self._task.risk)
        else:
            forecaster = LoadForecaster(self._model, moment.sensors_RC, moment.commands_RA)
            timeline = self._timeline.after(moment.position, min(horizon, forecaster.reach))
            forecast = forecaster.ahead(timeline, sensors_of(self._task.limits_of(self._model.schema)))
            now_A = moment.commands_RA[-1]
            forecast = self.calibration.from_forecast(forecast, moment.position, self._task.risk, now_A)
        warm = None if self._last is None else self._last.wanted_T2[int(moment.position - self._from) :]
        budget = self._task.risk * len(timeline) / len(self._timeline)
        self._last = plan_ahead(
            forecast, self._law, self._task, self._model.schema, self._config, moment.knobs, warm,
            len(self.decisions), forecaster, budget,
        )  # fmt: skip
        self._from, self._until = moment.position, moment.position + self._config.every
        self.decisions.append((moment.position, self._last))


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


@dataclass(frozen=True, eq=False)
class LearnedPolicy:
    """Layers with tanh between them; numpy alone, so that a decision takes microseconds."""

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]  # weight (out, in) and bias
    task: Task
    about: dict[str, Any]

    def action(self, seen_BF: np.ndarray) -> np.ndarray:
        """What the network asks for, -1 to 1 for each free knob."""
        values = seen_BF
        for weight, bias in self.layers[:-1]:
            values = np.tanh(values @ weight.T + bias)
        weight, bias = self.layers[-1]
        return np.asarray(np.tanh(values @ weight.T + bias))

    def knobs(self, seen_F: np.ndarray, now: Knobs, used: float) -> Knobs:
        """The knobs after a second: inside the range, no faster than the slew rate, never up when a limit is near."""
        wanted = wanted_knobs(self.action(seen_F[None]), self.task)[0]
        room = self.task.slew
        feed, spindle = (float(np.clip(aim, at - room, at + room)) for aim, at in zip(wanted, now))
        return (min(feed, now[0]) if used > _NEAR else feed), spindle

    def save(self, path: Path | str) -> None:
        """Write one file with everything in it."""
        tensors = {f"{kind}{n}": part for n, pair in enumerate(self.layers) for kind, part in zip(("w", "b"), pair)}
        content = {"format": _FORMAT, "task": self.task.model_dump(mode="json"), "about": self.about}
        with atomic_file(path) as temporary:
            save_file(
                {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in tensors.items()},
                temporary,
                metadata={"crossfeed": json.dumps(content)},
            )

    @classmethod
    def load(cls, path: Path | str) -> "LearnedPolicy":
        """Read a file that `save` wrote."""
        from safetensors import safe_open

        try:
            with safe_open(path, "numpy") as file:
                content = json.loads((file.metadata() or {}).get("crossfeed", "{}"))
            tensors = load_file(path)
        except (OSError, SafetensorError, ValueError) as error:
            raise CheckpointError(f"{path} cannot be read as a policy: {error}", expected="a policy file") from error
        if content.get("format") != _FORMAT:
            raise CheckpointError(f"{path} is no policy.", expected="a file made by crossfeed control learn")
        layers = tuple((tensors[f"w{n}"], tensors[f"b{n}"]) for n in range(len(tensors) // 2))
        return cls(layers, Task.model_validate(content["task"]), content["about"])


class PolicyController(Controller):
    """A learned policy as a controller."""

    def __init__(self, policy: LearnedPolicy, schema: Schema, name: str = "policy") -> None:
        self.name, self._policy, self._schema = name, policy, schema

    def start(self, timeline: Timeline, task: Task) -> None:
        limits, expected = task.limits_of(self._schema), self._policy.layers[0][0].shape[1]
        if size(limits) != expected:
            raise CheckpointError(
                f"The policy sees {expected} numbers, this task has {size(limits)}.",
                expected="as many limited sensors as it was trained with",
            )
        self._columns = [self._schema.sensor_names.index(sensor) for sensor in sensors_of(limits)]
        self._features = PolicyFeatures.of(timeline, limits)

    def act(self, moment: Moment) -> Knobs:
        index = min(int(moment.position), len(self._features) - 1)
        load_1L = np.nan_to_num(moment.sensors_RC[-1:, self._columns])
        highest_1L = self._features.highest_TL[index][None]
        seen = observe(self._features.plan_TF[index][None], highest_1L, load_1L, np.array([moment.knobs]))[0]
        used = float((load_1L / highest_1L).max(initial=0.0))
        return self._policy.knobs(seen, moment.knobs, used)
