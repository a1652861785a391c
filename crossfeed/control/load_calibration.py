"""What a machine's own log says about the program to come: earlier runs of it, and how far predictions were passed.

Loads as written come from an earlier run where there is one, else from the model; either way the load that limits have
to hold is the prediction plus a margin that the log and the run under way vouch for. T places, R rows, B windows, K
context rows, C sensors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from crossfeed.control.earlier_runs import LoggedRows, Scatter, around, find_runs, neighbours, smoothed
from crossfeed.control.load_forecast import CAUTIOUS, SAMPLES, CuttingLaw, KnownLoad, LoadForecast, physical
from crossfeed.control.margins import FEWEST, ConformalMargin, StudentMargin
from crossfeed.control.task import Task, highest_by_row
from crossfeed.control.timeline import Timeline, between, nearest_places
from crossfeed.model.world_model import WorldModel
from crossfeed.scenarios.measures import power_sensors
from crossfeed.scenarios.rollout import PERSISTENCE, command_rows, mean_rollout, sensor_rows, standard_noise
from crossfeed.schema import Channel, Schema

_LIGHT = 0.25  # of the limit; loads below it are compared by parts of this instead of by parts of themselves
_FORECAST = 1.0 / 1.645  # the spread of scores where forecasts are right about their own cautious quantile
_ANYTHING = 1e6  # widths above a forecast's middle: nothing is out of the question
_EVERY = 2  # rows between two windows
_MOST = 96  # windows, the latest
_AHEAD = 8  # rows: a decision is followed for four places, which take up to twice as long
_AT_ONCE = 32
_SPREAD = 0.05  # of the mean load, by which runs differ where only one is known
_TOGETHER = 4.0  # s of a cut that come out high or low together, so that they count as one chance to pass a limit
_ENOUGH = 300  # scores of forecasts, the latest


@dataclass(frozen=True, eq=False)
class CutScores:
    """How far rows in the cut came above a forecast's middle, in parts of what its cautious quantile lies above it."""

    under_way: np.ndarray  # rows of a move that was under way when they were forecast
    to_come: np.ndarray  # rows of moves that had not begun: no command tells how deep they are


class LimitedSensor:
    """The load that a limit has to hold: a prediction, and the margin that all predictions so far vouch for."""

    def __init__(
        self, channel: Channel, highest_T: np.ndarray, law: CuttingLaw, timeline: Timeline, loads: Sequence[np.ndarray]
    ) -> None:
        self._channel, self._highest_T, self._law, self._timeline = channel, highest_T, law, timeline
        self._to_come = ConformalMargin()  # forecasts of moves that had not begun
        self._log_under_way = np.empty(0)
        self._under_way = StudentMargin(self._log_under_way, _FORECAST)  # and of those under way
        self._scatter = Scatter.of_runs(loads, timeline.cutting)
        self._loads = [smoothed(load_T, timeline.cutting, self._scatter) for load_T in loads]
        self._peak_T = np.max([around(load_T) for load_T in self._loads], axis=0) if loads else np.empty(0)
        self._repeat = StudentMargin(self._repeated())

    @property
    def margin(self) -> StudentMargin | ConformalMargin:
        """How far the load may come above its prediction: an earlier run where there is one, else a forecast."""
        return self._repeat if self._loads else self._to_come

    def learn(self, scores: CutScores) -> None:
        """What a part of the log makes of the model's forecasts."""
        for score in scores.to_come:
            self._to_come.add(float(score))
        self._log_under_way = np.concatenate([self._log_under_way, scores.under_way])
        self._under_way = StudentMargin(self._log_under_way, _FORECAST)

    def from_runs(self, position: float, count: int, risk: float) -> tuple[np.ndarray, np.ndarray, KnownLoad]:
        """What the load passes with even chance and hardly ever at so many places, and its tail, by earlier runs."""
        here_T = self._highest_T[nearest_places(position, count, len(self._highest_T))]
        least_T = _LIGHT * np.where(np.isfinite(here_T), np.abs(here_T), 0.0)
        smooth_T = between(position + np.arange(count + 1.0), np.mean(self._loads, axis=0))
        middle_T = smooth_T + self._repeat.middle * np.maximum(np.abs(smooth_T), least_T)
        peak_T = _highest_moved(self._peak_T, position, count)
        unit_T = np.maximum(np.abs(peak_T), least_T)
        tail = KnownLoad(peak_T, unit_T, self._repeat.tail, np.ones(count, dtype=bool))
        return middle_T, peak_T + self._repeat.within(risk) * unit_T, tail

    def from_forecast(
        self, forecast: LoadForecast, going_T: np.ndarray, risk: float, risk_of_a_row: float
    ) -> tuple[np.ndarray, np.ndarray, KnownLoad]:
        """The same by a forecast with the margins that forecasts needed; `going_T` tells moves that are under way."""
        own_T, high_T = forecast.middle[self._channel.name], forecast.high[self._channel.name]
        middle_T, width_T = self._neighbourhood(forecast)
        tail = self._under_way.tail
        known_T = going_T & (len(self._under_way) >= FEWEST)
        beyond = min(self._to_come.within(risk_of_a_row), _ANYTHING)
        return (
            own_T + np.where(known_T, tail.middle * (high_T - own_T), 0.0),
            middle_T + np.where(known_T, tail.within(risk), beyond) * width_T,
            KnownLoad(middle_T, width_T, tail, known_T),
        )

    def compare_with_runs(self, load: float, first: int, last: int, knobs: tuple[float, float]) -> None:
        """Learn from a load that came true from place to place, against the highest of the earlier runs."""
        if np.isfinite(self._highest_T[first]):
            expected = self._grown(self._law.expected, self._peak_T[first : last + 1].max(), first, knobs)
            weight = max(abs(expected), _LIGHT * abs(self._highest_T[first]))
            self._repeat.add((load - expected) / weight, self._scatter.spread / weight)

    def compare_with_forecast(
        self, load: float, forecast: LoadForecast, rows: slice, going_on: bool, first: int, knobs: tuple[float, float]
    ) -> None:
        """Learn from it against the highest of those rows of a forecast."""
        middle_T, width_T = self._neighbourhood(forecast)
        if not len(middle_T[rows]):
            return
        middle, width = float(middle_T[rows].max()), float(width_T[rows].max())
        learned: StudentMargin | ConformalMargin = self._under_way if going_on else self._to_come
        grow = self._law.expected if going_on else self._law.bound
        expected, above = (self._grown(grow, value, first, knobs) for value in (middle, middle + width))
        learned.add((load - expected) / max(above - expected, 1e-9))

    def _neighbourhood(self, forecast: LoadForecast) -> tuple[np.ndarray, np.ndarray]:
        """The middle of a forecast and its cautious quantile above it, each the highest of its neighbourhood."""
        middle_T, high_T = (around(part[self._channel.name]) for part in (forecast.middle, forecast.high))
        return middle_T, np.maximum(high_T - middle_T, 1e-9)

    def _grown(self, grow: Callable[..., np.ndarray], load: float, index: int, knobs: tuple[float, float]) -> float:
        """A load as written under the knobs, by what the law expects or by its bound."""
        timeline = self._timeline
        speed_T = np.abs(timeline.commands_TA[index : index + 1, timeline.spindle_column])
        turns = timeline.turn_share_T[index] > 0.5 * timeline.feed_share_T[index]
        feed, spindle = np.array([knobs[0] * (knobs[1] if turns else 1.0)]), np.array([knobs[1]])
        return float(grow(self._channel, np.array([load]), speed_T, feed, spindle)[0])

    def _repeated(self) -> np.ndarray:
        """By which part of its load each run came above the others, or a single one above its neighbouring places."""
        cutting_T = self._timeline.cutting
        compared_T = cutting_T & np.append(cutting_T[1:], False) & np.isfinite(self._highest_T)
        scores = [np.empty(0)]
        for number, load_T in enumerate(self._loads):
            others = [around(other_T) for index, other_T in enumerate(self._loads) if index != number]
            expected_T = np.max(others, axis=0) if others else neighbours(load_T)
            weight_T = np.maximum(np.abs(expected_T), _LIGHT * np.abs(self._highest_T))
            scores.append(((load_T - expected_T) / weight_T)[compared_T])
        return np.concatenate(scores)


def _highest_moved(load_T: np.ndarray, position: float, count: int) -> np.ndarray:
    first = np.minimum(np.floor(position + np.arange(count) + 1e-9).astype(int), len(load_T) - 1)
    last = np.minimum(np.ceil(position + np.arange(count) - 1e-9).astype(int), len(load_T) - 1)
    return np.asarray(np.maximum(load_T[first], load_T[last]))


def forecast_scores(
    model: WorldModel, names: Sequence[str], sensors_RC: np.ndarray, commands_RA: np.ndarray
) -> dict[str, CutScores]:
    """Scores of a log, sensor by sensor."""
    context, ahead = model.config.context, min(_AHEAD, model.horizons[-1])
    timeline = Timeline.of_log(model.schema, commands_RA)
    cutting_R = timeline.cutting
    starts = np.arange(context, len(sensors_RC) - ahead + 1, _EVERY)
    starts = np.array([start for start in starts if cutting_R[start : start + ahead].any()][-_MOST:], dtype=int)
    scores = {name: [(np.empty(0), np.empty(0))] for name in names}
    x_RC, a_RA = sensor_rows(model, sensors_RC), command_rows(model, commands_RA)
    for first in range(0, len(starts), _AT_ONCE):
        begins = starts[first : first + _AT_ONCE]
        before, after = begins[:, None] + np.arange(-context, 0), begins[:, None] + np.arange(ahead)
        same_BT = np.array([timeline.rows(at, at + ahead).under_way(commands_RA[at - 1]) for at in begins.tolist()])
        forecast = mean_rollout(model.eval(), x_RC[before], a_RA[before], a_RA[after]).distribution
        for name in names:
            column = model.schema.sensor_names.index(name)
            with torch.inference_mode():
                middle_BT, high_BT = (
                    physical(model, name, forecast[..., column].quantile(level)) for level in (0.5, CAUTIOUS)
                )
            middle_BT, high_BT = (np.apply_along_axis(around, 1, part) for part in (middle_BT, high_BT))
            true_BT = sensors_RC[after, column]
            score_BT = (true_BT - middle_BT) / np.maximum(high_BT - middle_BT, 1e-9)
            counts_BT = cutting_R[after] & np.isfinite(true_BT)
            scores[name].append((score_BT[counts_BT & same_BT], score_BT[counts_BT & ~same_BT]))
    return {name: CutScores(*map(np.concatenate, zip(*parts))) for name, parts in scores.items()}


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
        calibration = cls(model.schema, law, timeline, task, find_runs(timeline, log))
        for part in reversed(log):
            # A model is asked only where no earlier run answers, and until it has been judged on enough rows.
            if calibration.has_runs or any(len(sensor.margin) >= _ENOUGH for sensor in calibration._limited.values()):
                break
            scores = forecast_scores(model, tuple(calibration._limited), part.sensors_RC, part.commands_RA)
            for name, sensor in calibration._limited.items():
                sensor.learn(scores[name])
        return calibration

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
        learned = {name: sensor.margin for name, sensor in self._limited.items()}
        margins = {name: {"rows": len(margin), "margin": margin.within(chance)} for name, margin in learned.items()}
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
            bounds = sensor.from_forecast(forecast, going_T, risk, self.of_a_row(risk))
            middle[name], high[name], tails[name] = bounds
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
