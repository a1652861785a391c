"""A learned policy: a small network in one file; what it sees, what its action means, limits and slew rate built in.

An action of 0 leaves a knob at 100 %, -1 and 1 are the ends of its range. B situations, L limits, T places, F features.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from crossfeed.control.task import Task, highest_by_row, sensors_of
from crossfeed.control.timeline import Timeline
from crossfeed.errors import CheckpointError
from crossfeed.files import atomic_file
from crossfeed.scenarios.measures import Limit

AHEAD = 8  # places of the program that are seen
_FEED, _SPEED = 5000.0, 10_000.0  # mm/min and rpm that count as one
_FORMAT = "crossfeed-policy/1"
_NEAR = 0.95  # of a limit, from which on the knob is not turned up


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

    def knobs(self, seen_F: np.ndarray, now: tuple[float, float], used: float) -> tuple[float, float]:
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
