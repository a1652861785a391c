"""What a machine's own log says about the program to come: earlier runs of it, and how far predictions were passed.

Loads as written come from an earlier run where there is one, else from the model; either way the load that limits have
to hold is the prediction plus a margin that the log and the run under way vouch for. T places, R rows, C sensors.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crossfeed.control.cutting_law import CuttingLaw
from crossfeed.control.earlier_runs import LoggedRows, find_runs
from crossfeed.control.forecast_scores import forecast_scores
from crossfeed.control.limited_sensor import LimitedSensor
from crossfeed.control.limits import highest_by_row
from crossfeed.control.load_forecast import SAMPLES, LoadForecast
from crossfeed.control.task import Task
from crossfeed.control.timeline import Timeline, between
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Schema
from crossfeed.serving.measures import power_sensors
from crossfeed.serving.noise import PERSISTENCE, standard_noise

_SPREAD = 0.05  # of the mean load, by which runs differ where only one is known
_TOGETHER = 4.0  # s of a cut that come out high or low together, so that they count as one chance to pass a limit
_ENOUGH = 300  # scores of forecasts, the latest


class LoadCalibration:
    """Predictions with the margins of a log; every row of the run under way is one more to learn from."""

    def __init__(
        self, schema: Schema, law: CuttingLaw, timeline: Timeline, task: Task, runs: Sequence[np.ndarray]
    ) -> None:
        self._schema, self._timeline = schema, timeline
        highest = highest_by_row(task.limits_of(schema), timeline.tool_T)
        shown = [self._column(name) for name in highest]
        self.runs = tuple(run_TC for run_TC in runs if np.isfinite(run_TC[:, shown]).all())
        self._limited = {
            name: LimitedSensor(schema.channel(name), highest_T, law, timeline, self._loads(name))
            for name, highest_T in highest.items()
        }
        self._looked: tuple[float, LoadForecast, np.ndarray] | None = None

    @classmethod
    def of(
        cls, model: WorldModel, law: CuttingLaw, timeline: Timeline, task: Task, log: Sequence[LoggedRows]
    ) -> "LoadCalibration":
        """Look for runs of the program in a log and let the model forecast what the log then brought."""
        known = cls(model.schema, law, timeline, task, find_runs(timeline, log))
        for part in reversed(log):
            # A model is asked only where no earlier run answers, and until it has been judged on enough rows.
            if known.has_runs or any(len(sensor.margin) >= _ENOUGH for sensor in known._limited.values()):
                break
            scores = forecast_scores(model, tuple(known._limited), part.sensors_RC, part.commands_RA)
            for name, sensor in known._limited.items():
                sensor.learn(scores[name])
        return known

    @property
    def has_runs(self) -> bool:
        """Whether loads come from an earlier run: there is one."""
        return bool(self.runs)

    def of_a_row(self, risk: float) -> float:
        """The risk of a single row that adds up to the given one over all the cuts of the program."""
        chances = self._timeline.cutting.sum() * self._timeline.period / _TOGETHER
        return risk / max(float(chances), 1.0)

    def summary(self, risk: float) -> dict[str, Any]:
        """Where loads come from, and how far each limited one may come above its prediction, as plain data."""
        chance = risk if self.has_runs else self.of_a_row(risk)
        known = {name: sensor.margin for name, sensor in self._limited.items()}
        margins = {name: {"rows": len(margin), "margin": margin.within(chance)} for name, margin in known.items()}
        return {"basis": "earlier run" if self.has_runs else "forecast", "runs": len(self.runs), "margins": margins}

    def from_runs(
        self, timeline: Timeline, position: float, risk: float, samples: int = SAMPLES, seed: int = 0
    ) -> LoadForecast:
        """The places of a timeline that begins at a position, as earlier runs met them."""
        present = np.isfinite(self.runs[0]).any(axis=0)
        names = tuple(dict.fromkeys([*self._limited, *power_sensors(self._schema, present)]))
        noise_STC = standard_noise(samples, len(timeline), len(names), seed, PERSISTENCE)
        edges = position + np.arange(len(timeline) + 1.0)
        paths, middle, high, tails = {}, {}, {}, {}
        for number, name in enumerate(names):
            load_T = np.nanmean(self._loads(name), axis=0)
            paths[name] = between(edges, load_T) + self._spread(name) * noise_STC[..., number]
        for name, sensor in self._limited.items():
            middle[name], high[name], tails[name] = sensor.from_runs(position, len(timeline), risk)
        return LoadForecast(timeline, paths, np.zeros(len(timeline)), middle, high, tails)

    def from_forecast(
        self, forecast: LoadForecast, position: float, risk: float, now_A: np.ndarray | None = None
    ) -> LoadForecast:
        """A forecast with the margins that forecasts of this log needed; `now_A` is the command under way."""
        timeline, middle, high, tails = forecast.timeline, dict(forecast.middle), dict(forecast.high), {}
        going_T = np.zeros(len(timeline), dtype=bool) if now_A is None else timeline.under_way(now_A)
        for name, sensor in self._limited.items():
            found = sensor.from_forecast(forecast, going_T, risk, self.of_a_row(risk))
            middle[name], high[name], tails[name] = found
        self._looked = (position, forecast, going_T)
        return replace(forecast, middle=middle, high=high, tails=tails)

    def learn(self, before: float, after: float, knobs: tuple[float, float], sensors_C: np.ndarray) -> None:
        """Compare a row of the run under way, cut from place to place under the knobs, with what was predicted."""
        first, last = int(before), min(int(after), len(self._timeline) - 1)
        if first >= len(self._timeline) or not (self._timeline.cutting[first] and self._timeline.cutting[last]):
            return
        for name, sensor in self._limited.items():
            load = float(sensors_C[self._column(name)])
            if self.has_runs:
                sensor.compare_with_runs(load, first, last, knobs)
            if self._looked is not None:
                begun, forecast, going_T = self._looked
                rows = slice(max(0, int(before - begun)), int(after - begun) + 1)
                sensor.compare_with_forecast(load, forecast, rows, bool(going_T[rows].all()), first, knobs)

    def _loads(self, name: str) -> list[np.ndarray]:
        """The loads of a sensor in the earlier runs."""
        return [run_TC[:, self._column(name)] for run_TC in self.runs]

    def _spread(self, name: str) -> float:
        """The standard deviation of a load between runs."""
        loads_NT = np.array(self._loads(name))
        if len(loads_NT) > 1:
            return float(np.sqrt(np.median(loads_NT.var(axis=0, ddof=1))))
        cutting = self._timeline.cutting
        return _SPREAD * float(np.abs(loads_NT[0][cutting]).mean()) if cutting.any() else 0.0

    def _column(self, name: str) -> int:
        return self._schema.sensor_names.index(name)
