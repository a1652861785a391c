"""Episodes that a model imagines: it goes on from moments of a log under the knobs, thousands of steps a second.

They are short because forecasts are good for seconds and not for minutes. Each keeps to one member of the model, which
has its own idea of every branch; where the members disagree, turning a knob costs something. B branches or episodes,
E members, T places, P powers and limited sensors.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.control.load_forecast import CuttingLaw
from crossfeed.control.policy import PolicyFeatures, observe, wanted_knobs
from crossfeed.control.task import Task, sensors_of
from crossfeed.control.timeline import MOVING, Timeline
from crossfeed.errors import TableError
from crossfeed.evaluation.opened_model import open_model
from crossfeed.logs.align import align
from crossfeed.logs.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import progress
from crossfeed.scenarios.measures import check_sensors, power_sensors
from crossfeed.scenarios.rollout import command_rows, mean_rollout, sensor_rows
from crossfeed.schema import Schema, conversion

PENALTY = 5.0  # s for each second above a limit, and as much again for each limit's height above it
_DOUBTED = 1.0  # of the usual disagreement from which on it costs something
_DOUBT_PENALTY = 0.2  # s for each second with a knob fully turned at one further usual disagreement
_PERSISTENCE = 0.8
_AT_ONCE = 32
_UNKNOWN = 0.05  # standard deviations of the source by which members may disagree where the threshold was not measured


@dataclass(frozen=True, eq=False)
class Branches:
    """As written, what every branch brings: means of each member, spreads, and how far members disagree."""

    sensors: tuple[str, ...]
    mean_EBTP: np.ndarray  # physical units
    spread_BTP: np.ndarray
    doubt_BT: np.ndarray  # in parts of what is usual
    load_BP: np.ndarray  # the last measured row
    timelines: tuple[Timeline, ...]
    features: tuple[PolicyFeatures, ...]

    def __len__(self) -> int:
        return len(self.timelines)


def draw_branches(model: WorldModel, table: Table, task: Task, count: int = 64, seed: int = 0) -> Branches:
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
    usual = float(model.disagreement_threshold) or _UNKNOWN
    x_NC, a_NA = sensor_rows(model, sensors_NC), command_rows(model, commands_NA)
    with progress("Growing branches from the log", total=len(starts)) as bar:
        for first in range(0, len(starts), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            rolled = mean_rollout(model.eval(), x_NC[before[part]], a_NA[before[part]], a_NA[after[part]], members=True)
            means.append(normaliser.inverse_sensors(rolled.member_EBTC.double().cpu().numpy())[..., columns])
            scale = normaliser.sensor_scale[columns]
            spreads.append(rolled.distribution.standard_deviation.double().cpu().numpy()[..., columns] * scale)
            doubts.append(rolled.apart[..., columns].mean(-1).double().cpu().numpy() / usual)
            bar.advance(len(before[part]))
    whole = Timeline.of_log(model.schema, commands_NA, rows.period)
    timelines = tuple(whole.rows(int(start), int(start) + reach) for start in starts)
    return Branches(
        names, np.concatenate(means, 1), np.concatenate(spreads), np.concatenate(doubts),
        np.nan_to_num(sensors_NC[starts - 1][:, columns]), timelines,
        tuple(PolicyFeatures.of(each, limits) for each in timelines),
    )  # fmt: skip


def _moments(table: Table, context: int, reach: int, count: int, seed: int) -> np.ndarray:
    """Rows of one session with a whole context behind, a whole reach ahead in which something moves, every command."""
    commanded = np.isfinite(table.commands).all(axis=1)
    speed = np.abs(table.commands).max(axis=1)
    moments: list[int] = []
    for group in table.groups:
        for row in range(group.start + context, group.stop - reach + 1):
            if speed[row : row + reach].max() > MOVING and commanded[row - context : row + reach].all():
                moments.append(row)
    if not moments:
        raise TableError(
            "No moment of the table has enough rows around it to grow a branch from.",
            expected=f"sessions of at least {context + reach} rows with all commands",
        )
    draw = np.random.default_rng(seed)
    return np.sort(draw.choice(np.array(moments), size=min(count, len(moments)), replace=False))


@dataclass(frozen=True, eq=False)
class EpisodeStep:
    """What one period brought to every episode."""

    reward_B: np.ndarray
    done_B: np.ndarray
    info: dict[str, Any]


class ImaginedEpisodes:
    """The state of B episodes; `reset` and `step` change some or all of them."""

    def __init__(
        self, branches: Branches, law: CuttingLaw, task: Task, schema: Schema, count: int, seed: int = 0
    ) -> None:
        self.branches, self.law, self.task, self.schema = branches, law, task, schema
        self.limits, self.count, self.draw = task.limits_of(schema), count, np.random.default_rng(seed)
        timelines = branches.timelines
        self._plan = np.stack([features.plan_TF for features in branches.features])
        self._highest = np.stack([features.highest_TL for features in branches.features])
        self._feeding = np.stack([timeline.feed_share_T for timeline in timelines])
        self._speed = np.stack([np.abs(timeline.commands_TA[:, timeline.spindle_column]) for timeline in timelines])
        self._positions, self.period = self._plan.shape[1], timelines[0].period
        self._limited = [branches.sensors.index(name) for name in sensors_of(self.limits)]
        self._powers = power_sensors(schema, np.isin(schema.sensor_names, branches.sensors))
        self.branch_B = np.zeros(count, dtype=int)
        self.member_B = np.zeros(count, dtype=int)
        self.rows_done_B = np.zeros(count)
        self.knobs_B2 = np.ones((count, 2))
        self._load_BP = np.zeros((count, len(branches.sensors)))
        self._noise_BP = np.zeros_like(self._load_BP)
        self.reset(np.ones(count, dtype=bool))

    @classmethod
    def of_log(
        cls, model: WorldModel | Path | str, table: Table | Path | str, task: Task, count: int, branches: int = 64,
        seed: int = 0,
    ) -> "ImaginedEpisodes":  # fmt: skip
        """Episodes of a model that begin at moments of a table."""
        network = model if isinstance(model, WorldModel) else open_model(model, "cpu").model
        rows = table if isinstance(table, Table) else Table.read(table)
        grown = draw_branches(network, rows, task, branches, seed)
        aligned = align(rows, network.schema)
        law = CuttingLaw.from_logs(network.schema, aligned.sensors, aligned.commands)
        return cls(grown, law, task, network.schema, count, seed)

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

    def step(self, action_BN: np.ndarray) -> EpisodeStep:
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
        return EpisodeStep(reward_B, done_B, info)

    def _at(self) -> np.ndarray:
        return np.asarray(np.minimum(self.rows_done_B.astype(int), self._positions - 1))
