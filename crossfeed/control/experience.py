"""What a machine's own log says about the program to come: earlier runs of it, and how far predictions were passed.

Loads as written come from an earlier run where there is one, else from the model; either way the load that limits have
to hold is the prediction plus a margin that the log and the run under way vouch for. T places, R rows, C sensors.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crossfeed.control.calibrate import forecast_scores
from crossfeed.control.course import Course, between
from crossfeed.control.earlier import LoggedRows, find_runs
from crossfeed.control.law import CuttingLaw
from crossfeed.control.limited_sensor import LimitedSensor
from crossfeed.control.limits import highest_by_row
from crossfeed.control.outlook import SAMPLES, Outlook
from crossfeed.control.task import Task
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Schema
from crossfeed.serving.measures import power_sensors
from crossfeed.serving.noise import PERSISTENCE, standard_noise

_SPREAD = 0.05  # of the mean load, by which runs differ where only one is known
_TOGETHER = 4.0  # s of a cut that come out high or low together, so that they count as one chance to pass a limit
_ENOUGH = 300  # scores of forecasts, the latest


class Experience:
    """Predictions with the margins of a log; every row of the run under way is one more to learn from."""

    def __init__(self, schema: Schema, law: CuttingLaw, course: Course, task: Task, runs: Sequence[np.ndarray]) -> None:
        self._schema, self._course = schema, course
        highest = highest_by_row(task.limits_of(schema), course.tool_T)
        shown = [self._column(name) for name in highest]
        self.runs = tuple(run_TC for run_TC in runs if np.isfinite(run_TC[:, shown]).all())
        self._limited = {
            name: LimitedSensor(schema.channel(name), highest_T, law, course, self._loads(name))
            for name, highest_T in highest.items()
        }
        self._looked: tuple[float, Outlook, np.ndarray] | None = None

    @classmethod
    def of(
        cls, model: WorldModel, law: CuttingLaw, course: Course, task: Task, log: Sequence[LoggedRows]
    ) -> "Experience":
        """Look for runs of the program in a log and let the model forecast what the log then brought."""
        known = cls(model.schema, law, course, task, find_runs(course, log))
        for part in reversed(log):
            # A model is asked only where no earlier run answers, and until it has been judged on enough rows.
            if known.remembers or any(len(sensor.margin) >= _ENOUGH for sensor in known._limited.values()):
                break
            scores = forecast_scores(model, tuple(known._limited), part.sensors_RC, part.commands_RA)
            for name, sensor in known._limited.items():
                sensor.learn(scores[name])
        return known

    @property
    def remembers(self) -> bool:
        """Whether loads come from an earlier run: there is one."""
        return bool(self.runs)

    def of_a_row(self, risk: float) -> float:
        """The risk of a single row that adds up to the given one over all the cuts of the program."""
        chances = self._course.cutting.sum() * self._course.period / _TOGETHER
        return risk / max(float(chances), 1.0)

    def summary(self, risk: float) -> dict[str, Any]:
        """Where loads come from, and how far each limited one may come above its prediction, as plain data."""
        chance = risk if self.remembers else self.of_a_row(risk)
        known = {name: sensor.margin for name, sensor in self._limited.items()}
        margins = {name: {"rows": len(margin), "margin": margin.within(chance)} for name, margin in known.items()}
        return {"basis": "earlier run" if self.remembers else "forecast", "runs": len(self.runs), "margins": margins}

    def recall(self, course: Course, position: float, risk: float, samples: int = SAMPLES, seed: int = 0) -> Outlook:
        """The places of a course that begins at a position, as earlier runs met them."""
        present = np.isfinite(self.runs[0]).any(axis=0)
        names = tuple(dict.fromkeys([*self._limited, *power_sensors(self._schema, present)]))
        noise_STC = standard_noise(samples, len(course), len(names), seed, PERSISTENCE)
        edges = position + np.arange(len(course) + 1.0)
        paths, middle, high, tails = {}, {}, {}, {}
        for number, name in enumerate(names):
            load_T = np.nanmean(self._loads(name), axis=0)
            paths[name] = between(edges, load_T) + self._spread(name) * noise_STC[..., number]
        for name, sensor in self._limited.items():
            middle[name], high[name], tails[name] = sensor.recalled(position, len(course), risk)
        return Outlook(course, paths, np.zeros(len(course)), middle, high, tails)

    def calibrated(self, forecast: Outlook, position: float, risk: float, now_A: np.ndarray | None = None) -> Outlook:
        """A forecast with the margins that forecasts of this log needed; `now_A` is the command under way."""
        course, middle, high, tails = forecast.course, dict(forecast.middle), dict(forecast.high), {}
        going_T = np.zeros(len(course), dtype=bool) if now_A is None else course.under_way(now_A)
        for name, sensor in self._limited.items():
            found = sensor.calibrated(forecast, going_T, risk, self.of_a_row(risk))
            middle[name], high[name], tails[name] = found
        self._looked = (position, forecast, going_T)
        return replace(forecast, middle=middle, high=high, tails=tails)

    def came_true(self, before: float, after: float, knobs: tuple[float, float], sensors_C: np.ndarray) -> None:
        """Compare a row of the run under way, cut from place to place under the knobs, with what was predicted."""
        first, last = int(before), min(int(after), len(self._course) - 1)
        if first >= len(self._course) or not (self._course.cutting[first] and self._course.cutting[last]):
            return
        for name, sensor in self._limited.items():
            load = float(sensors_C[self._column(name)])
            if self.remembers:
                sensor.compare_with_runs(load, first, last, knobs)
            if self._looked is not None:
                begun, outlook, going_T = self._looked
                rows = slice(max(0, int(before - begun)), int(after - begun) + 1)
                sensor.compare_with_forecast(load, outlook, rows, bool(going_T[rows].all()), first, knobs)

    def _loads(self, name: str) -> list[np.ndarray]:
        """The loads of a sensor in the earlier runs."""
        return [run_TC[:, self._column(name)] for run_TC in self.runs]

    def _spread(self, name: str) -> float:
        """The standard deviation of a load between runs."""
        loads_NT = np.array(self._loads(name))
        if len(loads_NT) > 1:
            return float(np.sqrt(np.median(loads_NT.var(axis=0, ddof=1))))
        cutting = self._course.cutting
        return _SPREAD * float(np.abs(loads_NT[0][cutting]).mean()) if cutting.any() else 0.0

    def _column(self, name: str) -> int:
        return self._schema.sensor_names.index(name)
