"""The planner that decides while a program runs, and learned policies as controllers, on the simulated machine.

Every few seconds it looks ahead with the model or an earlier run, plans, asks the model about the plan, and decides;
every row of the run under way widens or narrows the margins. T places, R rows, K context rows, C sensors, S samples.
"""

from bisect import insort
from dataclasses import dataclass, replace

import numpy as np
import torch

from crossfeed.control.earlier_runs import Scatter, around, find_runs, smoothed
from crossfeed.control.load_calibration import (
    FEWEST,
    LEAST,
    LIGHT,
    WEIGHT,
    LoadCalibration,
    conformal_margin,
    forecast_scores,
    neighbourhood,
    repeated_scores,
    upper_square,
)
from crossfeed.control.load_forecast import CAUTIOUS, SAMPLES, KnownLoad, LoadForecast, StudentTail, physical
from crossfeed.control.planner import PlannerConfig, plan_ahead
from crossfeed.control.policy import PolicyFeatures, observe, size
from crossfeed.control.score import Score, decide
from crossfeed.control.task import sensors_of
from crossfeed.control.timeline import between
from crossfeed.control.trial import idle_start, trial
from crossfeed.model.distribution import Distribution
from crossfeed.scenarios.measures import power_sensors
from crossfeed.scenarios.rollout import PERSISTENCE, command_rows, mean_rollout, sensor_rows, standard_noise
from crossfeed.schema import canonical

EVERY = 4  # places between two decisions
ENOUGH = 300  # scores of forecasts, the latest
FORECAST = 1.0 / 1.645  # the spread of scores where forecasts are right about their own cautious quantile
ANYTHING = 1e6  # widths above a forecast's middle: nothing is out of the question
UNKNOWN = 0.05  # standard deviations by which members may disagree where the threshold was not measured


@dataclass(frozen=True, eq=False)
class Moment:
    """What is known when a knob may be turned."""

    position: float  # s of the program as written that are behind
    knobs: tuple[float, float]
    sensors_RC: np.ndarray  # all rows so far
    commands_RA: np.ndarray


@dataclass(frozen=True, eq=False)
class Past:
    """The rows before a trial and the state they left the machine in."""

    sensors_RC: np.ndarray
    commands_RA: np.ndarray
    state: object

    @classmethod
    def idle(cls, piece, seed=0):
        rows, state = idle_start(piece, seed)
        return cls(np.array([row.sensors for row in rows]), np.array([row.commands for row in rows]), state)


def controlled(piece, timeline, task, controller, past):
    """A trial under something with `start` and `act`, which sees the last 256 rows."""
    controller.start(timeline, task)

    def act(position, knobs, rows):
        sensors = [*past.sensors_RC[-256:], *(row.sensors for row in rows)][-256:]
        commands = [*past.commands_RA[-256:], *(row.commands for row in rows)][-256:]
        return controller.act(Moment(position, knobs, np.array(sensors), np.array(commands)))

    return trial(piece, timeline, task, act, past.state)


class AsWritten:
    """Leaves the knobs alone."""

    name = "as written"

    def start(self, timeline, task):
        """Nothing to prepare."""

    def act(self, moment):  # noqa: ARG002
        return 1.0, 1.0


class PolicyController:
    """A learned policy as a controller."""

    def __init__(self, policy, name="policy"):
        self.name, self._policy = name, policy

    def start(self, timeline, task):
        limits, expected = task.limits_of(canonical()), self._policy.layers[0][0].shape[1]
        assert size(limits) == expected, f"the policy sees {expected} numbers, this task has {size(limits)}"
        self._columns = [canonical().sensor_names.index(sensor) for sensor in sensors_of(limits)]
        self._features = PolicyFeatures.of(timeline, limits)

    def act(self, moment):
        index = min(int(moment.position), len(self._features) - 1)
        load_1L = np.nan_to_num(moment.sensors_RC[-1:, self._columns])
        highest_1L = self._features.highest_TL[index][None]
        seen = observe(self._features.plan_TF[index][None], highest_1L, load_1L, np.array([moment.knobs]))[0]
        return self._policy.knobs(seen, moment.knobs, float((load_1L / highest_1L).max(initial=0.0)))


class Planner:
    """Looks ahead every few seconds, with the model or an earlier run, and acts where that is surely better.

    `log` is what the machine did before: margins are learned from it, and earlier runs of the program are found in it.
    """

    def __init__(self, model, law, log, config=None, name="planner"):
        self.name = name
        self._model, self._law, self._log = model, law, tuple(log)
        self._config = config or PlannerConfig()

    def start(self, timeline, task):
        self._timeline, self._task = timeline, task
        self.decisions = []
        self._from, self._until = 0.0, -1.0
        self._wanted_T2 = self._decision = self._before = None
        self.calibration = RunningCalibration.of(self._model, self._law, timeline, task, self._log)

    def act(self, moment):
        if self._before is not None:
            self.calibration.learn(self._before, moment.position, moment.knobs, moment.sensors_RC[-1])
        self._before = moment.position
        if moment.position >= self._until:
            self.decide(moment)
        index = min(int(moment.position - self._from), len(self._decision.feed_T) - 1)
        return float(self._decision.feed_T[index]), float(self._decision.spindle_T[index])

    def decide(self, moment):
        forecaster, horizon, risk = None, self._config.horizon, self._task.risk
        if self.calibration.runs:
            part = after(self._timeline, moment.position, horizon)
            forecast = self.calibration.ahead_by_runs(part, moment.position, risk)
        else:
            forecaster = LoadForecaster(self._model, moment.sensors_RC, moment.commands_RA)
            part = after(self._timeline, moment.position, min(horizon, forecaster.reach))
            forecast = forecaster.ahead(part, sensors_of(self._task.limits_of(self._model.schema)))
            forecast = self.calibration.ahead_by_forecast(forecast, moment.position, risk, moment.commands_RA[-1])
        warm = None if self._wanted_T2 is None else self._wanted_T2[int(moment.position - self._from) :]
        budget, seed = risk * len(part) / len(self._timeline), len(self.decisions)
        score = Score(forecast, self._law, self._task, self._model.schema)
        plan = plan_ahead(score, self._config, moment.knobs, budget, seed, warm)
        if forecaster is not None:
            forecast = asked(forecast, forecaster, score, plan.feed_T, plan.spindle_T)
            score = Score(forecast, self._law, self._task, self._model.schema)
        self._decision = decide(score, plan.feed_T, plan.spindle_T, plan.knot_T, moment.knobs, budget, seed)
        self._wanted_T2 = plan.wanted_T2
        self._from, self._until = moment.position, moment.position + EVERY
        self.decisions.append((moment.position, self._decision))


def after(timeline, position, count=None):
    """What is left from a position on, which may lie inside a place, or the next `count` places of it."""
    rows = max(1, int(np.ceil(len(timeline) - position - 1e-9)))
    rows = rows if count is None else min(count, rows)
    edges, at = position + np.arange(rows + 1.0), nearest(position, rows, len(timeline))
    return replace(
        timeline,
        commands_TA=np.column_stack([between(edges, column) for column in timeline.commands_TA.T]),
        feed_share_T=between(edges, timeline.feed_share_T),
        turn_share_T=between(edges, timeline.turn_share_T),
        line_T=timeline.line_T[at],
        tool_T=tuple(timeline.tool_T[index] for index in at),
    )


def nearest(position, count, length):
    """Of `length` places those in whose middle new ones begin that are counted from a position on."""
    return np.minimum(np.floor(position + 0.5 + np.arange(count)).astype(int), length - 1)


class LoadForecaster:
    """A model that has read the rows up to now, ready to be asked about any number of plans."""

    def __init__(self, model, sensors_RC, commands_RA):
        context = model.config.context
        self.model = model.eval()
        self._x_1KC = sensor_rows(model, sensors_RC[None, -context:])
        self._a_1KA = command_rows(model, commands_RA[None, -context:])
        self._present = self._x_1KC[0].isfinite().any(0)
        self.present = self._present.cpu().numpy()
        self.reach = model.horizons[-1]

    def ahead(self, timeline, limited):
        """Sampled loads under the program as written, up to the model's reach."""
        timeline = after(timeline, 0.0, self.reach)
        names = tuple(dict.fromkeys([*limited, *power_sensors(self.model.schema, self.present)]))
        columns = [self.model.schema.sensor_names.index(name) for name in names]
        forecast = self._rolled(timeline.commands_TA).distribution[0]
        noise_STC = standard_noise(SAMPLES, len(timeline), len(names), 0, PERSISTENCE)
        with torch.inference_mode():
            normal_STC = torch.from_numpy(noise_STC.astype(np.float32)).to(forecast.mean.device)
            drawn_STC = Distribution.stack([forecast[:, columns]] * SAMPLES, 0).from_normal(normal_STC)
            middle_TC, high_TC = (forecast[:, columns].quantile(level) for level in (0.5, CAUTIOUS))
        paths, middle, high = (
            {name: physical(self.model, name, part[..., n]) for n, name in enumerate(names)}
            for part in (drawn_STC, middle_TC, high_TC)
        )
        return LoadForecast(timeline, paths, np.zeros(len(timeline)), middle, high)

    def expected(self, commands_TA):
        """What the model itself expects under other commands: means (T, C), and its doubt (T,); T up to its reach."""
        rolled, model = self._rolled(commands_TA, members=True), self.model
        mean_TC = model.normaliser.inverse_sensors(rolled.distribution.mean[0].double().cpu().numpy())
        apart_T = rolled.apart[0][:, self._present].mean(-1).double().cpu().numpy()
        return mean_TC, apart_T / (float(model.disagreement_threshold) or UNKNOWN)

    def _rolled(self, commands_TA, members=False):
        return mean_rollout(self.model, self._x_1KC, self._a_1KA, command_rows(self.model, commands_TA[None]), members)


def asked(forecast, forecaster, score, feed_T, spindle_T):
    """The forecast with the loads that the model itself expects under the plan, where those are above the law.

    They are brought back to the program as written by the law, so that everything else goes on as before.
    """
    timeline = forecast.timeline
    commands_TA, position_R = timeline.commanded(feed_T, spindle_T)
    count = min(len(commands_TA), forecaster.reach)
    mean_RC, doubt_R = forecaster.expected(commands_TA[:count])
    row_T = np.clip(np.searchsorted(position_R[:count], np.arange(len(timeline)) + 0.5), 0, count - 1)
    reached_T = np.arange(len(timeline)) < position_R[count - 1]
    names = forecaster.model.schema.sensor_names
    paths, high, tails = dict(forecast.paths), dict(forecast.high), dict(forecast.tails)
    factors = score.effective(feed_T, spindle_T)
    speed_T = np.abs(timeline.commands_TA[:, timeline.spindle_column])
    for name in score.highest:
        path_ST, by_model_T = forecast.paths[name], mean_RC[row_T, names.index(name)]
        by_law_T = score.law.expected(score.schema.channel(name), path_ST.mean(axis=0), speed_T, *factors)
        more_T = np.where(reached_T, np.maximum(by_model_T - by_law_T, 0.0), 0.0)
        paths[name], high[name] = path_ST + more_T, high[name] + more_T
        if name in tails:
            tails[name] = replace(tails[name], load_T=tails[name].load_T + more_T)
    doubt_T = np.where(reached_T, np.maximum(forecast.doubt_T, doubt_R[row_T]), forecast.doubt_T)
    return replace(forecast, paths=paths, high=high, tails=tails, doubt_T=doubt_T)


class RunningMargin:
    """A tail that is believed first, then learned, row by row; `least` is the spread believed whatever they say."""

    def __init__(self, like, least=LEAST):
        like = like[np.isfinite(like)]
        self._middle, self._least = (min(float(np.median(like)), 0.0) if len(like) else 0.0), least
        self._spread = max(least, upper_square(like - self._middle) ** 0.5)
        self._scores, self._scatter = [], []

    @property
    def learned(self):
        """How many rows came true."""
        return len(self._scores)

    def add(self, score, scatter=0.0):
        """One more row that came true, and the part of its load by which a single reading scatters."""
        if np.isfinite(score):
            self._scores.append(score)
            self._scatter.append(scatter)

    @property
    def middle(self):
        count = len(self._scores)
        return (WEIGHT * self._middle + count * (float(np.median(self._scores)) if count else 0.0)) / (WEIGHT + count)

    @property
    def tail(self):
        """How high the next score comes."""
        middle, rows, half = self.middle, WEIGHT + len(self._scores), 0.5 * WEIGHT
        above = np.array(self._scores) - middle
        count = int((above > 0.0).sum())
        square = (half * self._spread**2 + count * upper_square(above)) / (half + count)
        # Readings scatter more than loads do, and limits are about loads.
        noise = float(np.mean(np.square(self._scatter))) if self._scatter else 0.0
        square = max(square - noise, min(square, self._least**2))
        return StudentTail(middle, (square * (1.0 + 1.0 / rows)) ** 0.5, rows - 1.0)


class RunningSensor:
    """The load that a limit has to hold: a prediction, and the margin that all predictions so far vouch for."""

    def __init__(self, channel, highest_T, law, timeline, loads):
        self._channel, self._highest_T, self._law, self._timeline = channel, highest_T, law, timeline
        self.to_come = []  # ascending scores of forecasts of moves that had not begun
        self._log_under_way, self._under_way = np.empty(0), RunningMargin(np.empty(0), FORECAST)
        self._scatter = Scatter.of_runs(loads, timeline.cutting)
        self._loads = [smoothed(load_T, timeline.cutting, self._scatter) for load_T in loads]
        self._peak_T = np.max([around(load_T) for load_T in self._loads], axis=0) if loads else np.empty(0)
        self._repeat = RunningMargin(repeated_scores(self._loads, timeline.cutting, highest_T))

    def learn(self, scores):
        """What a part of the log makes of the model's forecasts."""
        self.to_come = sorted([*self.to_come, *scores.to_come.tolist()])
        self._log_under_way = np.concatenate([self._log_under_way, scores.under_way])
        self._under_way = RunningMargin(self._log_under_way, FORECAST)

    def from_runs(self, position, count, risk):
        """What the load passes with even chance and hardly ever at so many places, and its tail, by earlier runs."""
        here_T = self._highest_T[nearest(position, count, len(self._highest_T))]
        least_T = LIGHT * np.where(np.isfinite(here_T), np.abs(here_T), 0.0)
        smooth_T = between(position + np.arange(count + 1.0), np.mean(self._loads, axis=0))
        tail = self._repeat.tail
        first, last = (
            np.minimum(places.astype(int), len(self._peak_T) - 1)
            for places in (np.floor(position + np.arange(count) + 1e-9), np.ceil(position + np.arange(count) - 1e-9))
        )
        peak_T = np.maximum(self._peak_T[first], self._peak_T[last])
        unit_T = np.maximum(np.abs(peak_T), least_T)
        middle_T = smooth_T + tail.middle * np.maximum(np.abs(smooth_T), least_T)
        return middle_T, peak_T + tail.within(risk) * unit_T, KnownLoad(peak_T, unit_T, tail, np.ones(count, bool))

    def from_forecast(self, forecast, going_T, risk, risk_of_a_row):
        """The same by a forecast with the margins that forecasts needed; `going_T` tells moves that are under way."""
        name, tail = self._channel.name, self._under_way.tail
        middle_T, width_T = neighbourhood(forecast, name)
        known_T = going_T & (len(self._log_under_way) + self._under_way.learned >= FEWEST)
        beyond = min(conformal_margin(np.array(self.to_come), risk_of_a_row), ANYTHING)
        own_T = forecast.middle[name]
        return (
            own_T + np.where(known_T, tail.middle * (forecast.high[name] - own_T), 0.0),
            middle_T + np.where(known_T, tail.within(risk), beyond) * width_T,
            KnownLoad(middle_T, width_T, tail, known_T),
        )

    def compare_with_runs(self, load, first, last, knobs):
        """Learn from a load that came true from place to place, against the highest of the earlier runs."""
        if np.isfinite(self._highest_T[first]):
            expected = self._grown(self._law.expected, self._peak_T[first : last + 1].max(), first, knobs)
            weight = max(abs(expected), LIGHT * abs(self._highest_T[first]))
            self._repeat.add((load - expected) / weight, self._scatter.spread / weight)

    def compare_with_forecast(self, load, forecast, rows, going_on, first, knobs):
        """Learn from it against the highest of those rows of a forecast."""
        middle_T, width_T = neighbourhood(forecast, self._channel.name)
        if not len(middle_T[rows]):
            return
        middle, width = float(middle_T[rows].max()), float(width_T[rows].max())
        grow = self._law.expected if going_on else self._law.bound
        expected, above = (self._grown(grow, value, first, knobs) for value in (middle, middle + width))
        score = (load - expected) / max(above - expected, 1e-9)
        if going_on:
            self._under_way.add(score)
        elif np.isfinite(score):
            insort(self.to_come, score)

    def _grown(self, grow, load, index, knobs):
        """A load as written under the knobs, by what the law expects or by its bound."""
        timeline = self._timeline
        speed_T = np.abs(timeline.commands_TA[index : index + 1, timeline.spindle_column])
        turns = timeline.turn_share_T[index] > 0.5 * timeline.feed_share_T[index]
        feed, spindle = np.array([knobs[0] * (knobs[1] if turns else 1.0)]), np.array([knobs[1]])
        return float(grow(self._channel, np.array([load]), speed_T, feed, spindle)[0])


class RunningCalibration(LoadCalibration):
    """Predictions with the margins of a log; every row of the run under way is one more to learn from."""

    @classmethod
    def of(cls, model, law, timeline, task, log):
        calibration = cls(model.schema, timeline, task, find_runs(timeline, log))
        sensors = calibration.sensors = {
            name: RunningSensor(model.schema.channel(name), highest_T, law, timeline, list(calibration._loads(name)))
            for name, highest_T in calibration._highest.items()
        }
        calibration.seen = None
        for part in reversed(log):
            if calibration.runs or any(len(sensor.to_come) >= ENOUGH for sensor in sensors.values()):
                break
            scores = forecast_scores(model, tuple(sensors), part.sensors_RC, part.commands_RA)
            for name, sensor in sensors.items():
                sensor.learn(scores[name])
        return calibration

    def ahead_by_runs(self, timeline, position, risk):
        """The places of a timeline that begins at a position, as earlier runs met them."""
        whole, edges, count = self.from_runs(risk), position + np.arange(len(timeline) + 1.0), len(timeline)
        noise_STC = standard_noise(SAMPLES, count, len(whole.paths), 0, PERSISTENCE)
        paths, middle, high, tails = {}, {}, {}, {}
        for number, name in enumerate(whole.paths):
            loads_NT = self._loads(name)
            paths[name] = between(edges, np.nanmean(loads_NT, axis=0)) + self._spread(loads_NT) * noise_STC[..., number]
        for name, sensor in self.sensors.items():
            middle[name], high[name], tails[name] = sensor.from_runs(position, count, risk)
        return LoadForecast(timeline, paths, np.zeros(count), middle, high, tails)

    def ahead_by_forecast(self, forecast, position, risk, now_A):
        """A forecast with the margins that forecasts of this log needed; `now_A` is the command under way."""
        going_T, middle, high, tails = (
            forecast.timeline.under_way(now_A),
            dict(forecast.middle),
            dict(forecast.high),
            {},
        )
        for name, sensor in self.sensors.items():
            bounds = sensor.from_forecast(forecast, going_T, risk, self.risk_of_a_row(risk))
            middle[name], high[name], tails[name] = bounds
        self.seen = (position, forecast, going_T)
        return replace(forecast, middle=middle, high=high, tails=tails)

    def learn(self, before, behind, knobs, sensors_C):
        """Compare a row of the run under way, cut from place to place under the knobs, with what was predicted."""
        first, last = int(before), min(int(behind), len(self._timeline) - 1)
        if first >= len(self._timeline) or not (self._timeline.cutting[first] and self._timeline.cutting[last]):
            return
        for name, sensor in self.sensors.items():
            load = float(sensors_C[self._schema.sensor_names.index(name)])
            if self.runs:
                sensor.compare_with_runs(load, first, last, knobs)
            if self.seen is not None:
                begun, forecast, going_T = self.seen
                rows = slice(max(0, int(before - begun)), int(behind - begun) + 1)
                sensor.compare_with_forecast(load, forecast, rows, bool(going_T[rows].all()), first, knobs)
