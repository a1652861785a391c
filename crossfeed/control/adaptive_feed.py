"""Adaptive feed control by teach-in, as controls sell it: a reference power for every cut, and a feed that keeps it.

A first run at 100 % teaches the reference of each cut. Later runs change the feed so that the spindle power stays
at the reference, inside a range; a power far above it is an overload, to which the feed reacts at once.
"""

from dataclasses import dataclass, field

import numpy as np
from pydantic import Field

from crossfeed.configuration import CheckedForm
from crossfeed.control.controllers import Controller, Knobs, Moment, turned
from crossfeed.control.cutting_law import CuttingLaw
from crossfeed.control.task import Task
from crossfeed.control.timeline import Timeline
from crossfeed.control.trial import Trial
from crossfeed.schema import Schema


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


class AdaptiveFeed(Controller):
    """Regulates the feed to the power that was taught for the cut."""

    def __init__(
        self, schema: Schema, law: CuttingLaw, timeline: Timeline, taught: Trial, config: AdaptiveConfig | None = None,
        name: str = "adaptive feed",
    ) -> None:  # fmt: skip
        self.name = name
        self._power = schema.sensor_names.index("spindle_power")
        self._law, self._config = law, config or AdaptiveConfig()
        self._references = self._teach(timeline, taught)
        self.report: dict[int, CutReport] = {}

    def _teach(self, timeline: Timeline, taught: Trial) -> dict[int, tuple[float, float]]:
        """Reference power above idling and seconds of every cut, from a run at 100 %."""
        index_R = np.minimum(taught.position.astype(int), len(timeline) - 1)
        above_R = taught.sensors[:, self._power] - self._idle(taught.commands)
        found = {}
        for cut in range(int(timeline.cut_T.max()) + 1):
            own = (timeline.cut_T[index_R] == cut) & timeline.cutting[index_R] & np.isfinite(above_R)
            if own.any():
                level = float(np.quantile(np.maximum(above_R[own], 0.0), self._config.reference))
                found[cut] = (level, float((timeline.cut_T == cut).sum()) * timeline.period)
        return found

    def start(self, timeline: Timeline, task: Task) -> None:
        self._timeline, self._task, self._smooth = timeline, task, np.nan
        self.report = {
            cut: CutReport(cut, timeline.tool_T[int(np.argmax(timeline.cut_T == cut))], reference, seconds)
            for cut, (reference, seconds) in self._references.items()
        }

    def act(self, moment: Moment) -> Knobs:
        index, feed = min(int(moment.position), len(self._timeline) - 1), moment.knobs[0]
        line = self.report.get(int(self._timeline.cut_T[index]))
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
