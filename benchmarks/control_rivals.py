"""Whom the planner is compared with: adaptive feed control by teach-in, a load rule, and an oracle on the simulator.

Adaptive feed control, as controls sell it: a first run at 100 % teaches the reference power of each cut, later runs
change the feed so that the spindle power stays there; a power far above it is an overload, to which the feed reacts at
once. The oracle starts at the highest feed everywhere, runs the program on the simulator itself, turns down where a
limit was passed and up where there is room, and keeps the cheapest run that passed limits no more often than the
program as written.
"""

from dataclasses import dataclass, field

import numpy as np
from control_receding import AsWritten, controlled
from pydantic import Field

from crossfeed.configuration import CheckedForm
from crossfeed.control.load_forecast import CuttingLaw
from crossfeed.control.machine import Workpiece
from crossfeed.control.score import reachable
from crossfeed.control.task import Task, highest_by_row
from crossfeed.control.timeline import Timeline
from crossfeed.control.trial import Knobs, Trial, along, trial
from crossfeed.schema import Schema, canonical

_ROUNDS = 7
_ROOM = 0.01  # below the limit, and as much again after every round that passed it too often
_POWER = 0.78  # how loads grow with the feed; only the size of a correction depends on it


class AdaptiveConfig(CheckedForm):
    """The settings such a control has."""

    overload: float = Field(default=1.5, gt=1.0)  # times the reference
    reference: float = Field(default=0.8, gt=0.0, le=1.0)  # quantile of the cut's power in the teach-in
    level: float = Field(default=1.0, gt=0.0)  # of the reference, at which the power is kept
    smoothing: float = Field(default=0.5, ge=0.0, lt=1.0)  # of the measured power from row to row


@dataclass
class CutReport:
    """A line of the usual report."""

    cut: int
    tool: str
    reference: float  # kW above idling
    seconds_taught: float
    seconds: float = 0.0
    highest: float = 0.0  # kW above idling
    overrides: list[float] = field(default_factory=list)
    overloads: int = 0

    @property
    def row(self) -> dict[str, float | int | str]:
        """Tool, reference, highest load, feed factor, time saved, overloads: the columns operators know."""
        return {
            "cut": self.cut,
            "tool": self.tool,
            "reference_kW": self.reference,
            "highest_percent": 100.0 * self.highest / self.reference if self.reference else 0.0,
            "mean_override_percent": 100.0 * float(np.mean(self.overrides)) if self.overrides else 100.0,
            "seconds": self.seconds,
            "seconds_saved": self.seconds_taught - self.seconds,
            "overloads": self.overloads,
        }


class AdaptiveFeed:
    """Regulates the feed to the power that was taught for the cut."""

    def __init__(
        self, schema: Schema, law: CuttingLaw, timeline: Timeline, taught: Trial, config: AdaptiveConfig | None = None,
        name: str = "adaptive feed",
    ) -> None:  # fmt: skip
        self.name = name
        self._power = schema.sensor_names.index("spindle_power")
        self._law, self._config = law, config or AdaptiveConfig()
        self._cuts = cuts(timeline)
        self._references = self._teach(timeline, taught)
        self.report: dict[int, CutReport] = {}

    def _teach(self, timeline: Timeline, taught: Trial) -> dict[int, tuple[float, float]]:
        """Reference power above idling and seconds of every cut, from a run at 100 %."""
        index_R = np.minimum(taught.position.astype(int), len(timeline) - 1)
        sensors, commands = (np.array([getattr(row, part) for row in taught.rows]) for part in ("sensors", "commands"))
        above_R = sensors[:, self._power] - self._idle(commands)
        found = {}
        for cut in range(int(self._cuts.max()) + 1):
            own = (self._cuts[index_R] == cut) & timeline.cutting[index_R] & np.isfinite(above_R)
            if own.any():
                level = float(np.quantile(np.maximum(above_R[own], 0.0), self._config.reference))
                found[cut] = (level, float((self._cuts == cut).sum()) * timeline.period)
        return found

    def start(self, timeline: Timeline, task: Task) -> None:
        self._timeline, self._task, self._smooth = timeline, task, np.nan
        self.report = {
            cut: CutReport(cut, timeline.tool_T[int(np.argmax(self._cuts == cut))], reference, seconds)
            for cut, (reference, seconds) in self._references.items()
        }

    def act(self, moment) -> Knobs:
        index, feed = min(int(moment.position), len(self._timeline) - 1), moment.knobs[0]
        line = self.report.get(int(self._cuts[index]))
        if line is None or line.reference <= 0.0 or self._timeline.tool_T[index] in self._task.leave:
            self._smooth = np.nan
            return turned(1.0, feed, self._task), 1.0
        above = float(moment.sensors_RC[-1, self._power] - self._idle(moment.commands_RA[-1:])[0])
        old = self._config.smoothing if np.isfinite(self._smooth) else 0.0
        self._smooth = old * (self._smooth if old else 0.0) + (1.0 - old) * above
        wanted = feed * self._config.level * line.reference / max(self._smooth, 0.1 * line.reference)
        if above > self._config.overload * line.reference:
            wanted, line.overloads = self._task.feed.min, line.overloads + 1
        knob = turned(wanted, feed, self._task)
        line.seconds += self._timeline.period
        line.highest = max(line.highest, above)
        line.overrides.append(knob)
        return knob, 1.0

    def _idle(self, commands_RA: np.ndarray) -> np.ndarray:
        return self._law.idle_load("spindle_power", np.abs(commands_RA[:, 0]))


def cuts(timeline):
    """Numbers (T,) of the cuts in order, -1 in between; a cut ends with its tool or with the spindle."""
    numbers, number, inside = np.full(len(timeline), -1), -1, ""
    speed_T = timeline.commands_TA[:, timeline.spindle_column]
    for index, (feeding, tool) in enumerate(zip(timeline.feed_share_T > 0.5, timeline.tool_T)):
        if speed_T[index] == 0.0 or (inside and tool != inside):
            inside = ""
        if feeding and speed_T[index] != 0.0:
            if not inside:
                number, inside = number + 1, tool or "?"
            numbers[index] = number
    return numbers


class LoadRule:
    """override = clip(160 - 2 x load, 0, 120) with the load in per cent, as synchronous actions of controls have it."""

    name = "load rule"

    def __init__(self, schema: Schema, rated: float, sensor: str = "spindle_torque") -> None:
        self._column, self._rated = schema.sensor_names.index(sensor), rated

    def start(self, timeline: Timeline, task: Task) -> None:  # noqa: ARG002
        """It knows neither the program nor what lies ahead."""
        self._task = task

    def act(self, moment) -> Knobs:
        load = 100.0 * abs(float(moment.sensors_RC[-1, self._column])) / self._rated
        override = float(np.clip(160.0 - 2.0 * load, 0.0, 120.0)) / 100.0 if np.isfinite(load) else 1.0
        # A feed of nothing would never end; the task's lowest is the floor.
        return turned(override, moment.knobs[0], self._task), 1.0


def turned(wanted: float, now: float, task: Task) -> float:
    """The knob after a second of turning towards a wanted position inside the task's range."""
    aim = min(max(wanted, task.feed.min), task.feed.max)
    return min(max(aim, now - task.slew), now + task.slew)


def oracle(piece: Workpiece, timeline: Timeline, task: Task, past, rounds: int = _ROUNDS) -> Trial:
    """The cheapest run found with the truth at hand; dearer than the program as written only to keep limits."""
    best = controlled(piece, timeline, task, AsWritten(), past)
    allowed, free_T = best.passed, timeline.free(task)
    wanted_T, spindle_T = np.where(free_T, task.feed.max, 1.0), np.ones(len(timeline))
    room = _ROOM
    for _ in range(rounds):
        feed_T, _ = reachable(timeline, wanted_T, spindle_T, task, (1.0, 1.0))
        run = trial(piece, timeline, task, along(feed_T, spindle_T), past.state)
        if run.passed <= allowed and (run.cost < best.cost or run.passed < best.passed):
            best, allowed = run, run.passed
        elif run.passed > allowed:
            room += _ROOM
        used_T = _used(run, timeline, task)
        factor_T = np.clip((1.0 - room) / np.maximum(used_T, 1e-6), 0.3, 3.0) ** (1.0 / _POWER)
        wanted_T = np.where(free_T, np.clip(feed_T * factor_T, task.feed.min, task.feed.max), 1.0)
    return best


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
