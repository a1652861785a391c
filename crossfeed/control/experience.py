"""What a machine's own log says about the program to come: earlier runs of it, and how far predictions were passed.

Loads as written come from an earlier run where there is one, else from the model; either way the load that limits have
to hold is the prediction plus a margin that the log and the run under way vouch for. T places, R rows, C sensors.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crossfeed.control.calibrate import forecast_scores
from crossfeed.control.course import Course, between, nearest_places
from crossfeed.control.earlier import LoggedRows, around, find_runs, neighbours
from crossfeed.control.law import CuttingLaw
from crossfeed.control.limits import highest_by_row
from crossfeed.control.margin import FEWEST, Margin
from crossfeed.control.outlook import SAMPLES, KnownLoad, Outlook
from crossfeed.control.readings import Scatter, calmed
from crossfeed.control.repeat import Repeat
from crossfeed.control.task import Task
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Schema
from crossfeed.serving.measures import power_sensors
from crossfeed.serving.noise import PERSISTENCE, standard_noise

_SPREAD = 0.05  # of the mean load, by which runs differ where only one is known
_LIGHT = 0.25  # of the limit; loads below it are compared by parts of this instead of by parts of themselves
_TOGETHER = 4.0  # s of a cut that come out high or low together, so that they count as one chance to pass a limit
_ENOUGH = 300  # scores of forecasts, the latest
_FORECAST = 1.0 / 1.645  # the spread of scores where forecasts are right about their own cautious quantile
_ANYTHING = 1e6  # widths above a forecast's middle: nothing is out of the question


class Experience:
    """Predictions with the margins of a log; every row of the run under way is one more to learn from."""

    def __init__(self, schema: Schema, law: CuttingLaw, course: Course, task: Task, runs: Sequence[np.ndarray]) -> None:
        self._schema, self._law, self._course = schema, law, course
        self._highest = highest_by_row(task.limits_of(schema), course.tool_T)
        self._forecast = {name: Margin() for name in self._highest}  # of moves that had not begun
        self._going_on = {name: Repeat(np.empty(0), _FORECAST) for name in self._highest}  # of those under way
        self.runs = tuple(run_TC for run_TC in runs if self._shows(run_TC))
        loads = {name: [run_TC[:, self._column(name)] for run_TC in self.runs] for name in self._highest}
        self._scatter = {name: _scatter_of(own, course.cutting) for name, own in loads.items()}
        self._loads = {
            name: [calmed(load_T, course.cutting, self._scatter[name]) for load_T in own] for name, own in loads.items()
        }
        self._peak = {
            name: np.max([around(load_T) for load_T in own], axis=0) for name, own in self._loads.items() if own
        }
        self._repeats = {name: Repeat(self._repeated(name)) for name in self._highest}
        self._looked: tuple[float, Outlook, np.ndarray] | None = None

    @classmethod
    def of(
        cls, model: WorldModel, law: CuttingLaw, course: Course, task: Task, log: Sequence[LoggedRows]
    ) -> "Experience":
        """Look for runs of the program in a log and let the model forecast what the log then brought."""
        known = cls(model.schema, law, course, task, find_runs(course, log))
        going_on: dict[str, list[np.ndarray]] = {name: [np.empty(0)] for name in known._highest}
        for part in reversed(log):
            # A model is asked only where no earlier run answers, and until it has been judged on enough rows.
            if known.remembers or any(len(margin) >= _ENOUGH for margin in known._forecast.values()):
                break
            scores = forecast_scores(model, tuple(known._highest), part.sensors_RC, part.commands_RA)
            for name, margin in known._forecast.items():
                going_on[name].append(scores[name].under_way)
                for score in scores[name].to_come:
                    margin.add(float(score))
        known._going_on = {name: Repeat(np.concatenate(parts), _FORECAST) for name, parts in going_on.items()}
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
        known: Mapping[str, Repeat | Margin] = self._repeats if self.remembers else self._forecast
        chance = risk if self.remembers else self.of_a_row(risk)
        margins = {name: {"rows": len(margin), "margin": margin.within(chance)} for name, margin in known.items()}
        return {"basis": "earlier run" if self.remembers else "forecast", "runs": len(self.runs), "margins": margins}

    def recall(self, course: Course, position: float, risk: float, samples: int = SAMPLES, seed: int = 0) -> Outlook:
        """The places of a course that begins at a position, as earlier runs met them."""
        present = np.isfinite(self.runs[0]).any(axis=0)
        names = tuple(dict.fromkeys([*self._highest, *power_sensors(self._schema, present)]))
        noise_STC = standard_noise(samples, len(course), len(names), seed, PERSISTENCE)
        paths, middle, high, tails = {}, {}, {}, {}
        edges = position + np.arange(len(course) + 1.0)
        for number, name in enumerate(names):
            load_T = np.nanmean([run_TC[:, self._column(name)] for run_TC in self.runs], axis=0)
            own_T = between(edges, load_T)
            paths[name] = own_T + self._spread(name) * noise_STC[..., number]
            if name in self._highest:
                least_T, repeat = _LIGHT * _limit_here(self._highest[name], position, len(course)), self._repeats[name]
                calm_T = between(edges, np.mean(self._loads[name], axis=0))
                middle[name] = calm_T + repeat.middle * np.maximum(np.abs(calm_T), least_T)
                peak_T = _highest_moved(self._peak[name], position, len(course))
                unit_T = np.maximum(np.abs(peak_T), least_T)
                tails[name] = KnownLoad(peak_T, unit_T, repeat.tail, np.ones(len(course), dtype=bool))
                high[name] = peak_T + repeat.within(risk) * unit_T
        return Outlook(course, paths, np.zeros(len(course)), middle, high, tails)

    def calibrated(self, forecast: Outlook, position: float, risk: float, now_A: np.ndarray | None = None) -> Outlook:
        """A forecast with the margins that forecasts of this log needed; `now_A` is the command under way."""
        course, middle, high, tails = forecast.course, dict(forecast.middle), dict(forecast.high), {}
        going_T = np.zeros(len(course), dtype=bool) if now_A is None else course.under_way(now_A)
        for name in self._highest:
            middle_T, width_T = _width(forecast, name)
            tail = self._going_on[name].tail
            known_T = going_T & (len(self._going_on[name]) >= FEWEST)
            tails[name] = KnownLoad(middle_T, width_T, tail, known_T)
            middle[name] = middle[name] + np.where(known_T, tail.middle * (high[name] - middle[name]), 0.0)
            beyond = min(self._forecast[name].within(self.of_a_row(risk)), _ANYTHING)
            high[name] = middle_T + np.where(known_T, tail.within(risk), beyond) * width_T
        self._looked = (position, forecast, going_T)
        return replace(forecast, middle=middle, high=high, tails=tails)

    def came_true(self, before: float, after: float, knobs: tuple[float, float], sensors_C: np.ndarray) -> None:
        """Compare a row of the run under way, cut from place to place under the knobs, with what was predicted."""
        first, last = int(before), min(int(after), len(self._course) - 1)
        if first >= len(self._course) or not (self._course.cutting[first] and self._course.cutting[last]):
            return
        for name, highest_T in self._highest.items():
            load = float(sensors_C[self._column(name)])
            if self.runs and np.isfinite(highest_T[first]):
                expected = self._grown(self._law.expected, name, self._peak[name][first : last + 1].max(), first, knobs)
                weight = max(abs(expected), _LIGHT * abs(highest_T[first]))
                self._repeats[name].add((load - expected) / weight, self._scatter[name].spread / weight)
            if self._looked is not None:
                begun, outlook, going_T = self._looked
                rows = slice(max(0, int(before - begun)), int(after - begun) + 1)
                middle_T, width_T = _width(outlook, name)
                if len(middle_T[rows]):
                    middle, width = float(middle_T[rows].max()), float(width_T[rows].max())
                    going_on = bool(going_T[rows].all())
                    learned: Repeat | Margin = self._going_on[name] if going_on else self._forecast[name]
                    grow = self._law.expected if going_on else self._law.bound
                    expected, above = (
                        self._grown(grow, name, value, first, knobs) for value in (middle, middle + width)
                    )
                    learned.add((load - expected) / max(above - expected, 1e-9))

    def _grown(
        self, grow: Callable[..., np.ndarray], name: str, load: float, index: int, knobs: tuple[float, float]
    ) -> float:
        """A load as written under the knobs, by what the law expects or by its bound."""
        course = self._course
        speed_T = np.abs(course.commands_TA[index : index + 1, course.spindle_column])
        turns = course.turn_share_T[index] > 0.5 * course.feed_share_T[index]
        feed, spindle = np.array([knobs[0] * (knobs[1] if turns else 1.0)]), np.array([knobs[1]])
        return float(grow(self._schema.channel(name), np.array([load]), speed_T, feed, spindle)[0])

    def _repeated(self, name: str) -> np.ndarray:
        """By which part of its load each run came above the others, or a single one above its neighbouring places."""
        highest_T, loads = self._highest[name], self._loads[name]
        compared_T = self._course.cutting & np.append(self._course.cutting[1:], False) & np.isfinite(highest_T)
        scores = [np.empty(0)]
        for number, load_T in enumerate(loads):
            others = [around(other_T) for index, other_T in enumerate(loads) if index != number]
            expected_T = np.max(others, axis=0) if others else neighbours(load_T)
            weight_T = np.maximum(np.abs(expected_T), _LIGHT * np.abs(highest_T))
            scores.append(((load_T - expected_T) / weight_T)[compared_T])
        return np.concatenate(scores)

    def _spread(self, name: str) -> float:
        """The standard deviation of a load between runs."""
        loads_NT = np.array([run_TC[:, self._column(name)] for run_TC in self.runs])
        if len(loads_NT) > 1:
            return float(np.sqrt(np.median(loads_NT.var(axis=0, ddof=1))))
        cutting = self._course.cutting
        return _SPREAD * float(np.abs(loads_NT[0][cutting]).mean()) if cutting.any() else 0.0

    def _shows(self, run_TC: np.ndarray) -> bool:
        return all(np.isfinite(run_TC[:, self._column(name)]).all() for name in self._highest)

    def _column(self, name: str) -> int:
        return self._schema.sensor_names.index(name)


def _width(outlook: Outlook, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The middle of a forecast and its cautious quantile above it, each the highest of its neighbourhood."""
    middle_T, high_T = around(outlook.middle[name]), around(outlook.high[name])
    return middle_T, np.maximum(high_T - middle_T, 1e-9)


def _scatter_of(loads: Sequence[np.ndarray], cutting_T: np.ndarray) -> Scatter:
    """What single readings of some runs scatter by, in the mean."""
    found = [Scatter.of(load_T, cutting_T) for load_T in loads]
    if not found:
        return Scatter()
    return Scatter(*(float(np.mean([getattr(each, name) for each in found])) for name in ("spread", "share")))


def _highest_moved(load_T: np.ndarray, position: float, count: int) -> np.ndarray:
    first = np.minimum(np.floor(position + np.arange(count) + 1e-9).astype(int), len(load_T) - 1)
    last = np.minimum(np.ceil(position + np.arange(count) - 1e-9).astype(int), len(load_T) - 1)
    return np.asarray(np.maximum(load_T[first], load_T[last]))


def _limit_here(highest_T: np.ndarray, position: float, count: int) -> np.ndarray:
    """The height of the limit at each place, nothing where there is none."""
    here_T = highest_T[nearest_places(position, count, len(highest_T))]
    return np.where(np.isfinite(here_T), np.abs(here_T), 0.0)
