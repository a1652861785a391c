"""Who turns the knobs: one interface for planners, policies and what controls offer today."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crossfeed.control.earlier_runs import LoggedRows
from crossfeed.control.load_calibration import LoadCalibration
from crossfeed.control.load_forecast import CuttingLaw, LoadForecaster
from crossfeed.control.planner import OverridePlan, PlannerConfig, plan_ahead
from crossfeed.control.task import Task, sensors_of
from crossfeed.control.timeline import Timeline
from crossfeed.model.world_model import WorldModel

Knobs = tuple[float, float]


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
