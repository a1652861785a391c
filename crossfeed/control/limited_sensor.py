"""What a log says about one limited sensor: its load in earlier runs, and how far predictions of it were passed.

T places.
"""

from collections.abc import Callable, Sequence

import numpy as np

from crossfeed.control.cutting_law import CuttingLaw
from crossfeed.control.earlier_runs import around, neighbours
from crossfeed.control.forecast_scores import CutScores
from crossfeed.control.load_forecast import KnownLoad, LoadForecast
from crossfeed.control.margins import FEWEST, ConformalMargin, StudentMargin
from crossfeed.control.scatter import Scatter, smoothed
from crossfeed.control.timeline import Timeline, between, nearest_places
from crossfeed.schema import Channel

_LIGHT = 0.25  # of the limit; loads below it are compared by parts of this instead of by parts of themselves
_FORECAST = 1.0 / 1.645  # the spread of scores where forecasts are right about their own cautious quantile
_ANYTHING = 1e6  # widths above a forecast's middle: nothing is out of the question


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
        known = KnownLoad(peak_T, unit_T, self._repeat.tail, np.ones(count, dtype=bool))
        return middle_T, peak_T + self._repeat.within(risk) * unit_T, known

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
