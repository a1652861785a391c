"""Moments of a log from which the model goes on for a while: where policies learn, a few seconds at a time.

Rollouts are short because forecasts are good for seconds and not for minutes. Each member of the model has its own idea
of every branch. B branches, E members, T places, P powers and limited sensors.
"""

from dataclasses import dataclass

import numpy as np
import torch

from crossfeed.control.course import Course
from crossfeed.control.limits import sensors_of
from crossfeed.control.observation import CourseFeatures
from crossfeed.control.task import Task
from crossfeed.control.walk import usual_doubt, walk
from crossfeed.errors import TableError
from crossfeed.ingest.align import align
from crossfeed.ingest.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import progress
from crossfeed.schema import Schema
from crossfeed.serving.measures import check_sensors, power_sensors

_AT_ONCE = 32
_RAPID = 0.6  # of the fastest feed in the log; what is faster is a rapid, unless no feed of a cut can be meant
_FASTEST_CUT = 10_000.0  # mm/min
_MOVING = 1.0  # mm/min


@dataclass(frozen=True, eq=False)
class Branches:
    """As written, what every branch brings: means of each member, spreads, and how far members disagree."""

    sensors: tuple[str, ...]
    mean_EBTP: np.ndarray  # physical units
    spread_BTP: np.ndarray
    doubt_BT: np.ndarray  # in parts of what is usual
    load_BP: np.ndarray  # the last measured row
    courses: tuple[Course, ...]
    marks: tuple[CourseFeatures, ...]

    def __len__(self) -> int:
        return len(self.courses)


def grow(model: WorldModel, table: Table, task: Task, count: int = 64, seed: int = 0) -> Branches:
    """Draw moments of a table, most of them in the cut, and let the model go on from each as the log's commands did."""
    rows, reach, context = align(table, model.schema), model.horizons[-1], model.config.context
    starts, limits = _moments(rows, context, reach, count, seed), task.limits_of(model.schema)
    sensors_NC, commands_NA = rows.sensors, rows.commands
    normaliser = model.normaliser
    present = np.isfinite(sensors_NC).any(axis=0)
    check_sensors(sensors_of(limits), model.schema, present, "The limited sensor")
    names = tuple(dict.fromkeys([*sensors_of(limits), *power_sensors(model.schema, present)]))
    columns = [model.schema.sensor_names.index(name) for name in names]
    before = starts[:, None] + np.arange(-context, 0)
    after = starts[:, None] + np.arange(reach)
    means, spreads, doubts = [], [], []
    usual = usual_doubt(model)
    with progress("Growing branches from the log", total=len(starts)) as bar:
        for first in range(0, len(starts), _AT_ONCE):
            own = slice(first, first + _AT_ONCE)
            x, a = normaliser.transform_sensors(sensors_NC[before[own]]), normaliser.transform_commands(commands_NA)
            parts = [torch.from_numpy(part.astype(np.float32)) for part in (x, a[before[own]], a[after[own]])]
            walked = walk(model.eval(), parts[0], parts[1], parts[2], members=True)
            means.append(normaliser.inverse_sensors(walked.member_EBTC.double().numpy())[..., columns])
            scale = normaliser.sensor_scale[columns]
            spreads.append(walked.distribution.standard_deviation.double().numpy()[..., columns] * scale)
            doubts.append(walked.apart[..., columns].mean(-1).double().numpy() / usual)
            bar.advance(len(before[own]))
    whole = logged_course(model.schema, commands_NA, rows.period)
    courses = tuple(whole.rows(int(start), int(start) + reach) for start in starts)
    return Branches(
        names, np.concatenate(means, 1), np.concatenate(spreads), np.concatenate(doubts),
        np.nan_to_num(sensors_NC[starts - 1][:, columns]), courses,
        tuple(CourseFeatures.of(each, limits) for each in courses),
    )  # fmt: skip


def _moments(table: Table, context: int, reach: int, count: int, seed: int) -> np.ndarray:
    """Rows of one session with a whole context behind, a whole reach ahead in which something moves, every command."""
    known = np.isfinite(table.commands).all(axis=1)
    speed = np.abs(table.commands).max(axis=1)
    found: list[int] = []
    for group in table.groups:
        for row in range(group.start + context, group.stop - reach + 1):
            if speed[row : row + reach].max() > _MOVING and known[row - context : row + reach].all():
                found.append(row)
    if not found:
        raise TableError(
            "No moment of the table has enough rows around it to grow a branch from.",
            expected=f"sessions of at least {context + reach} rows with all commands",
        )
    draw = np.random.default_rng(seed)
    return np.sort(draw.choice(np.array(found), size=min(count, len(found)), replace=False))


def logged_course(schema: Schema, commands_TA: np.ndarray, period: float = 1.0) -> Course:
    """Logged commands as a course: a log does not say what is a rapid, but how fast."""
    spindle = schema.command_names.index("spindle_speed")
    feeds_TA = np.delete(commands_TA, spindle, axis=1)
    fastest = float(np.nanmax(np.abs(feeds_TA), initial=0.0))
    path_T = np.sqrt((feeds_TA**2).sum(axis=1))
    turning = np.abs(commands_TA[:, spindle]) > 0.0
    feeding = (path_T > _MOVING) & (path_T < max(_RAPID * fastest, _FASTEST_CUT)) & turning
    none = np.zeros(len(commands_TA))
    return Course(
        "log", period, commands_TA, feeding.astype(float), none, none.astype(int), ("",) * len(none),
        np.where(feeding, 0, -1), spindle, len(none),
    )  # fmt: skip
