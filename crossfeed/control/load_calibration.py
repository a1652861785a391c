"""What a machine's own log says about the program to come: earlier runs of it, and how far predictions were passed.

Loads as written come from an earlier run where there is one, else from the model; either way the load that limits have
to hold is the prediction plus a margin learned from how far loads came above it before: scores, in parts of something
that grows with the load. T places, R rows, B windows, K context rows, C sensors, N runs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from crossfeed.control.earlier_runs import LoggedRows, Scatter, around, find_runs, neighbours, smoothed
from crossfeed.control.load_forecast import CAUTIOUS, SAMPLES, KnownLoad, LoadForecast, StudentTail, physical
from crossfeed.control.task import Task, highest_by_row
from crossfeed.control.timeline import Timeline
from crossfeed.evaluation.statistics import conformal_rank
from crossfeed.model.world_model import WorldModel
from crossfeed.scenarios.measures import power_sensors
from crossfeed.scenarios.rollout import PERSISTENCE, command_rows, mean_rollout, sensor_rows, standard_noise
from crossfeed.schema import Schema

FEWEST = 20  # scores below which a conformal margin says nothing
LEAST = 0.06  # of the load: by which cuts of the same part differ at least from run to run; set by hand
WEIGHT = 10.0  # rows that what is believed counts for
LIGHT = 0.25  # of the limit; loads below it are compared by parts of this instead of by parts of themselves
_ANYTHING = 1e6  # widths above a forecast's middle: nothing is out of the question
_EVERY = 2  # rows between two windows
_MOST = 96  # windows, the latest
_AHEAD = 8  # rows: a decision is followed for four places, which take up to twice as long
_AT_ONCE = 32
_SPREAD = 0.05  # of the mean load, by which runs differ where only one is known
_TOGETHER = 4.0  # s of a cut that come out high or low together, so that they count as one chance to pass a limit
_ENOUGH = 300  # scores of forecasts, the latest


def conformal_margin(scores: np.ndarray, risk: float) -> float:
    """What the next score stays below with probability 1 - risk (split conformal); infinite where too little is known.

    Of n earlier scores and the next one, each is equally likely to be the highest: the k-th smallest of them is passed
    with a probability of 1 - k / (n + 1), whatever their distribution is. With fewer than 1 / risk - 1 scores that is
    the highest of them: the log can vouch for no more.
    """
    if len(scores) < FEWEST:
        return math.inf
    order = min(conformal_rank(len(scores), 1.0 - risk), len(scores))
    return float(np.partition(scores, order - 1)[order - 1])


def student_tail(scores: np.ndarray) -> StudentTail:
    """The tail that finite scores make believe, as if ten rows vouched for it.

    Only what lies above the middle says how high loads come: entries, where a row holds half a cut, lie far below it.
    """
    middle = min(float(np.median(scores)), 0.0) if len(scores) else 0.0
    spread = max(LEAST, math.sqrt(upper_square(scores - middle)))
    return StudentTail(middle, spread * math.sqrt(1.0 + 1.0 / WEIGHT), WEIGHT - 1.0)


def upper_square(above: np.ndarray) -> float:
    """The mean square of what lies above the middle."""
    higher = above[above > 0.0]
    return float(np.mean(higher**2)) if len(higher) else 0.0


class CutScores(NamedTuple):
    """How far rows in the cut came above a forecast's middle, in parts of what its cautious quantile lies above it."""

    under_way: np.ndarray  # rows of a move that was under way when they were forecast
    to_come: np.ndarray  # rows of moves that had not begun: no command tells how deep they are


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
    """Predicted loads of a program with margins: by earlier runs, else by the scores of forecasts of moves to come."""

    def __init__(
        self, schema: Schema, timeline: Timeline, task: Task, runs: Sequence[np.ndarray],
        scores: Mapping[str, np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        self._schema, self._timeline = schema, timeline
        self._highest = highest_by_row(task.limits_of(schema), timeline.tool_T)
        shown = [schema.sensor_names.index(name) for name in self._highest]
        self.runs = tuple(run_TC for run_TC in runs if np.isfinite(run_TC[:, shown]).all())
        self._scores = {name: np.empty(0) for name in self._highest} | dict(scores or {})

    @classmethod
    def of(cls, model: WorldModel, timeline: Timeline, task: Task, log: Sequence[LoggedRows]) -> "LoadCalibration":
        """Look for runs of the program in a log and let the model forecast what the log then brought."""
        calibration = cls(model.schema, timeline, task, find_runs(timeline, log))
        scores = calibration._scores
        for part in reversed(log):
            # A model is asked only where no earlier run answers, and until it has been judged on enough rows.
            if calibration.runs or any(len(score) >= _ENOUGH for score in scores.values()):
                break
            further = forecast_scores(model, tuple(scores), part.sensors_RC, part.commands_RA)
            scores |= {name: np.concatenate([scores[name], further[name].to_come]) for name in scores}
        return calibration

    def risk_of_a_row(self, risk: float) -> float:
        """The risk of a single row that adds up to the given one over all the cuts of the program."""
        chances = self._timeline.cutting.sum() * self._timeline.period / _TOGETHER
        return risk / max(float(chances), 1.0)

    def summary(self, risk: float) -> dict[str, Any]:
        """Where loads come from, and how far each limited one may come above its prediction, as plain data."""
        if self.runs:
            scores = {name: self._repeated(name) for name in self._highest}
            margins = {name: student_tail(scores[name]).within(risk) for name in scores}
        else:
            scores = self._scores
            margins = {name: conformal_margin(scores[name], self.risk_of_a_row(risk)) for name in scores}
        rows = {name: {"rows": len(scores[name]), "margin": margin} for name, margin in margins.items()}
        return {"basis": "earlier run" if self.runs else "forecast", "runs": len(self.runs), "margins": rows}

    def from_runs(self, risk: float, samples: int = SAMPLES, seed: int = 0) -> LoadForecast:
        """The loads of the program as earlier runs met them."""
        timeline = self._timeline
        present = np.isfinite(self.runs[0]).any(axis=0)
        names = tuple(dict.fromkeys([*self._highest, *power_sensors(self._schema, present)]))
        noise_STC = standard_noise(samples, len(timeline), len(names), seed, PERSISTENCE)
        paths, middle, high, tails = {}, {}, {}, {}
        for number, name in enumerate(names):
            loads_NT = self._loads(name)
            paths[name] = np.nanmean(loads_NT, axis=0) + self._spread(loads_NT) * noise_STC[..., number]
        for name, highest_T in self._highest.items():
            loads_NT, tail = self._smooth(name), student_tail(self._repeated(name))
            smooth_T, peak_T = loads_NT.mean(axis=0), np.max([around(load_T) for load_T in loads_NT], axis=0)
            least_T = LIGHT * np.where(np.isfinite(highest_T), np.abs(highest_T), 0.0)
            unit_T = np.maximum(np.abs(peak_T), least_T)
            middle[name] = smooth_T + tail.middle * np.maximum(np.abs(smooth_T), least_T)
            high[name] = peak_T + tail.within(risk) * unit_T
            tails[name] = KnownLoad(peak_T, unit_T, tail, np.ones(len(timeline), dtype=bool))
        return LoadForecast(timeline, paths, np.zeros(len(timeline)), middle, high, tails)

    def from_forecast(self, forecast: LoadForecast, risk: float) -> LoadForecast:
        """A forecast of moves that are all to come, with the margins that forecasts of this log needed."""
        high = dict(forecast.high)
        for name in self._highest:
            middle_T, width_T = neighbourhood(forecast, name)
            margin = conformal_margin(self._scores[name], self.risk_of_a_row(risk))
            high[name] = middle_T + min(margin, _ANYTHING) * width_T
        return replace(forecast, high=high)

    def _loads(self, name: str) -> np.ndarray:
        """The loads (N, T) of a sensor in the earlier runs."""
        return np.array([run_TC[:, self._schema.sensor_names.index(name)] for run_TC in self.runs])

    def _spread(self, loads_NT: np.ndarray) -> float:
        """The standard deviation of a load between runs."""
        if len(loads_NT) > 1:
            return float(np.sqrt(np.median(loads_NT.var(axis=0, ddof=1))))
        cutting_T = self._timeline.cutting
        return _SPREAD * float(np.abs(loads_NT[0][cutting_T]).mean()) if cutting_T.any() else 0.0

    def _smooth(self, name: str) -> np.ndarray:
        """The same without the scatter of single readings."""
        cutting_T, loads_NT = self._timeline.cutting, self._loads(name)
        scatter = Scatter.of_runs(loads_NT, cutting_T)
        return np.array([smoothed(load_T, cutting_T, scatter) for load_T in loads_NT])

    def _repeated(self, name: str) -> np.ndarray:
        """Scores of the runs against each other, of a single one against its neighbouring places."""
        return repeated_scores(self._smooth(name), self._timeline.cutting, self._highest[name])


def neighbourhood(forecast: LoadForecast, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The middle of a forecast load and its cautious quantile above it, each the highest of its neighbourhood."""
    middle_T, high_T = around(forecast.middle[name]), around(forecast.high[name])
    return middle_T, np.maximum(high_T - middle_T, 1e-9)


def repeated_scores(
    loads_NT: Sequence[np.ndarray] | np.ndarray, cutting_T: np.ndarray, highest_T: np.ndarray
) -> np.ndarray:
    """By which part of its load each run came above the others, or a single one above its neighbouring places."""
    compared_T = cutting_T & np.append(cutting_T[1:], False) & np.isfinite(highest_T)
    scores = [np.empty(0)]
    for number, load_T in enumerate(loads_NT):
        others = [around(other_T) for index, other_T in enumerate(loads_NT) if index != number]
        expected_T = np.max(others, axis=0) if others else neighbours(load_T)
        weight_T = np.maximum(np.abs(expected_T), LIGHT * np.abs(highest_T))
        scores.append(((load_T - expected_T) / weight_T)[compared_T])
    found = np.concatenate(scores)
    return found[np.isfinite(found)]
