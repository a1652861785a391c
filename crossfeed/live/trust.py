"""May the forecast be believed now? One light for each sensor, one sentence for all of them.

What was promised is compared with what came: share inside 90 %, CRPS against its own promise, and a test that may be
read at any time. H horizons, C sensors.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.live.snapshot import ChannelForecast, Light, LivePlannedCommands, Row, worst
from crossfeed.model.distribution import Distribution
from crossfeed.model.forecast import Forecast
from crossfeed.schema import Schema

LEVEL = 0.9
TOLERATED = 0.2  # misses that are forgiven: twice the promised share
_BETS = (0.25, 0.5, 1.0, 2.0, 4.0)  # below 1 / TOLERATED, so that no bet can lose everything
_RECENT = 200
_SPAN_SHARE = 0.05  # of a command's range: a plan that was off by more was not followed
_LOW, _HIGH = (1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0
_INNER_RANKS = tuple((number + 0.5) / 10 for number in range(1, 9))  # the ends of the interval are ranks as well
STALE_ROWS = 3.0  # periods after which the newest row is too old
_AMBER_ROWS = 1.75
_ENOUGH = 30  # judged forecasts before anything is said about them
_EVIDENCE = 20.0  # times the number of sensors: a false alarm ever, about any of them, has a chance of 1 in 20
_COVERED, _CRPS = 0.8, 1.5
_FARTHEST = 8.0  # standard deviations of the training rows
_ROUNDING = 1e-3


@dataclass
class EProcess:
    """Wealth of a gambler who bets that misses are more frequent than tolerated: large wealth is evidence of drift.

    If every miss has at most the tolerated probability, the chance that the wealth ever reaches W is at most 1 / W,
    however often one looks (Ville's inequality). Several bets are mixed, so none has to be the right one.
    """

    logs: list[float] = field(default_factory=lambda: [0.0] * len(_BETS))

    def observe(self, missed: bool) -> None:
        """One more forecast of the next row has been checked."""
        outcome = float(missed) - TOLERATED
        self.logs = [log + math.log1p(bet * outcome) for log, bet in zip(self.logs, _BETS, strict=True)]

    @property
    def wealth(self) -> float:
        top = max(self.logs)
        return math.exp(min(top, 600.0)) * sum(math.exp(log - top) for log in self.logs) / len(self.logs)


@dataclass
class PromiseRecord:
    """How the promises about one sensor were kept."""

    inside: deque[bool] = field(default_factory=lambda: deque(maxlen=_RECENT))
    crps: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_RECENT))
    evidence: EProcess = field(default_factory=EProcess)

    @property
    def coverage(self) -> float:
        return sum(self.inside) / len(self.inside)

    @property
    def words(self) -> str:
        """The coverage in words."""
        return f"{100 * self.coverage:.0f} % of the last {len(self.inside)} values lay inside {100 * LEVEL:.0f} %"

    @property
    def crps_ratio(self) -> float | None:
        """CRPS found over CRPS promised; 1 is a forecast that is as good as it says."""
        promised = sum(expected for _, expected in self.crps)
        return sum(observed for observed, _ in self.crps) / promised if promised > 0.0 else None


@dataclass(frozen=True, eq=False)
class ForecastSummary:
    """What will be asked of a forecast, in one search for its quantiles; arrays are (H, C) after any others."""

    median: np.ndarray
    low: np.ndarray
    high: np.ndarray
    own_crps: np.ndarray  # the CRPS that the forecast expects of itself: its mean over its own ranks

    @classmethod
    def of(cls, distribution: Distribution) -> "ForecastSummary":
        median, low, high, *inner = distribution.quantiles((0.5, _LOW, _HIGH, *_INNER_RANKS))
        crps = distribution.crps(torch.stack([low, *inner, high])).mean(0)
        return cls(median.numpy(), low.numpy(), high.numpy(), crps.numpy())

    def __getitem__(self, window: int) -> "ForecastSummary":
        return ForecastSummary(self.median[window], self.low[window], self.high[window], self.own_crps[window])


@dataclass(frozen=True, eq=False)
class PromisedForecast:
    """A forecast with the row it starts from and the plan it assumes: a promise about the rows to come."""

    row: Row
    plan: LivePlannedCommands
    forecast: Forecast
    summary: ForecastSummary
    doubt: float | None = None  # how far apart the members of the model are, in z-units

    def intervals(self) -> dict[str, ChannelForecast]:
        """Median and 90 % of every sensor that the machine shows."""
        bounds = (self.summary.median, self.summary.low, self.summary.high)
        columns = [
            (column, name) for column, name in enumerate(self.forecast.sensors) if name in self.forecast.measured
        ]
        return {
            name: ChannelForecast(*(tuple(values[:, column].tolist()) for values in bounds)) for column, name in columns
        }


class Promises:
    """Keeps forecasts until the rows they spoke about have come, and judges those whose plan was followed."""

    def __init__(self, schema: Schema, horizons: Sequence[int], spans: Mapping[str, float]) -> None:
        self._schema, self._horizons, self._spans = schema, tuple(horizons), spans
        self._open: deque[PromisedForecast] = deque()
        self._judged = -math.inf
        self.records = {name: PromiseRecord() for name in schema.sensor_names}

    def add(self, promised: PromisedForecast) -> None:
        """A forecast to be judged."""
        self._open.append(promised)

    def judge(self, rows: Sequence[Row], period: float) -> None:
        """Compare every new row with what was promised for it."""
        by_number = {round(row.time / period): row for row in rows}
        for row in rows:
            if row.time > self._judged:
                for promise in self._open:
                    self._compare(promise, row, by_number, period)
        if rows:
            self._judged = max(self._judged, rows[-1].time)
            oldest = rows[-1].time - self._horizons[-1] * period
            while self._open and self._open[0].row.time < oldest:
                self._open.popleft()

    def _compare(self, promise: PromisedForecast, row: Row, rows: Mapping[int, Row], period: float) -> None:
        ahead = round((row.time - promise.row.time) / period)
        if ahead not in self._horizons or not self._followed(promise, ahead, rows, period):
            return
        slot, summary = self._horizons.index(ahead), promise.summary
        x = row.floats(promise.forecast.sensors)
        crps = promise.forecast.distribution[slot].crps(torch.from_numpy(np.nan_to_num(x))).numpy()
        for column, name in enumerate(promise.forecast.sensors):
            if name not in promise.forecast.measured or not np.isfinite(x[column]):
                continue
            record = self.records[name]
            inside = bool(summary.low[slot, column] <= x[column] <= summary.high[slot, column])
            record.inside.append(inside)
            record.crps.append((float(crps[column]), float(summary.own_crps[slot, column])))
            if slot == 0:
                record.evidence.observe(not inside)

    def _followed(self, promise: PromisedForecast, ahead: int, rows: Mapping[int, Row], period: float) -> bool:
        """Whether the commands were those of the plan: a forecast under another plan promised nothing about these."""
        begin = round(promise.row.time / period)
        for step in range(1, ahead + 1):
            row = rows.get(begin + step)
            if row is None:
                return False
            for name in self._schema.command_names:
                command = row.values[name]
                if command is None or abs(command - promise.plan.commands[name][step - 1]) > self._spans[name]:
                    return False
        return True


def spans_of(schema: Schema, ranges: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """How far each command may be off the plan and still count as following it."""
    spans = {}
    for channel in schema.commands:
        low, high = ranges.get(channel.name, (0.0, 0.0))
        spans[channel.name] = max(_SPAN_SHARE * (high - low), 1e-6)
    return spans


class Trust:
    """Watches the data and the forecasts, and says what they are worth."""

    def __init__(self, model: OpenedModel) -> None:
        self._model, self._schema = model.model, model.model.schema
        self.period = float(model.provenance.get("row_period", 1.0))
        self._ranges: Mapping[str, Sequence[float]] = model.provenance.get("command_range") or {}
        self.promises = Promises(self._schema, model.model.horizons, spans_of(self._schema, self._ranges))
        self._silent: dict[str, int] = {}
        self._far: dict[str, float] = {}
        self._outside = self._doubt = ""

    def observe(self, rows: Sequence[Row]) -> None:
        """The rows of the running session, the newest last."""
        for name in self._schema.sensor_names:
            present = (back for back, row in enumerate(reversed(rows)) if row.values[name] is not None)
            self._silent[name] = next(present, len(rows))
        if rows:
            self._far = self._distances(rows[-1])
        self.promises.judge(rows, self.period)

    def promise(self, promised: PromisedForecast) -> None:
        """A forecast that was made from the newest row."""
        self.promises.add(promised)
        self._outside, self._doubt = self._outside_training(promised.plan), self._disagreement(promised.doubt)

    def _distances(self, row: Row) -> dict[str, float]:
        names = self._schema.sensor_names
        z = np.abs(self._model.normaliser.transform_sensors(row.floats(names)))
        return {name: float(distance) for name, distance in zip(names, z, strict=True) if np.isfinite(distance)}

    def _outside_training(self, plan: LivePlannedCommands) -> str:
        for channel in self._schema.commands:
            if channel.name in self._ranges:
                low, high = self._ranges[channel.name]
                edge = _ROUNDING * (high - low)
                for value in (min(plan.commands[channel.name]), max(plan.commands[channel.name])):
                    if not low - edge <= value <= high + edge:
                        return (
                            f"{channel.name} of {value:,.6g} {channel.unit} lies outside the {low:,.6g} to {high:,.6g} "
                            "of training, where forecasts are guesses"
                        )
        return ""

    def _disagreement(self, doubt: float | None) -> str:
        """Where the members of the ensemble are further apart than in 99 of 100 windows of the source."""
        usual = float(self._model.disagreement_threshold)
        if doubt is None or not doubt > usual > 0.0:
            return ""
        return f"this is unlike what was learned: the members of the model differ by {doubt:.2g}, usually {usual:.2g}"

    def lights(self, channels: set[str], age: float | None, problem: str, missing: int) -> dict[str, Light]:
        """One light for each sensor that the source tells."""
        names = [name for name in self._schema.sensor_names if name in channels]
        return {name: self._light(name, age, problem, missing, len(names)) for name in names}

    def _light(self, name: str, age: float | None, problem: str, missing: int, sensors: int) -> Light:
        if name in self._model.normaliser.unseen:
            return Light("red", "the model never saw this sensor in training")
        if age is None:
            return Light("red", "nothing has arrived yet")
        if age > STALE_ROWS * self.period:
            return Light("red", f"the newest row is {age:.0f} s old")
        if problem:
            return Light("red", problem)
        if missing:
            return Light("amber", f"the model wants {missing} more rows before its first forecast")
        silent = self._silent.get(name, 0)
        if silent:
            return Light("red", f"no value for {silent * self.period:g} s")
        return self._judged(name, sensors) or self._caution(name, age) or self._believed(name)

    def _judged(self, name: str, sensors: int) -> Light | None:
        """What the kept and broken promises say."""
        record = self.promises.records[name]
        if len(record.inside) < _ENOUGH:
            return None
        coverage, ratio, share = record.coverage, record.crps_ratio, record.words
        if record.evidence.wealth >= _EVIDENCE * sensors:
            if coverage < _COVERED:
                return Light("red", f"the machine no longer does what is forecast: {share}")
            return Light("amber", f"the forecast was wrong too often since the start; now {share}")
        if coverage < _COVERED:
            return Light("amber", f"the intervals are too narrow: {share}")
        if ratio is not None and ratio > _CRPS:
            return Light("amber", f"errors are {ratio:.1f} times as large as the forecast promises")
        return None

    def _caution(self, name: str, age: float) -> Light | None:
        if self._far.get(name, 0.0) > _FARTHEST:
            return Light("amber", f"its value is {self._far[name]:.0f} standard deviations from all that was learned")
        if self._outside or self._doubt:
            return Light("amber", self._outside or self._doubt)
        if age > _AMBER_ROWS * self.period:
            return Light("amber", f"the newest row is {age:.1f} s old")
        return None

    def _believed(self, name: str) -> Light:
        record = self.promises.records[name]
        checked = len(record.inside)
        return Light("green", f"in time; {checked} forecasts checked so far" if checked < _ENOUGH else record.words)

    def verdict(self, lights: Mapping[str, Light], skew_warning: str) -> str:
        """One sentence for the whole."""
        if not lights:
            return "Nothing is known about the machine yet."
        colour = worst(lights)
        bad = [name for name, light in lights.items() if light.colour == colour]
        also = f"; {skew_warning}" if skew_warning else ""
        if colour == "green":
            return f"The forecast may be believed{also}."
        reason = lights[bad[0]].sentence
        whom = "Nothing" if len(bad) == len(lights) and colour == "red" else f"{len(bad)} of {len(lights)} sensors"
        care = "needs care" if len(bad) == 1 else "need care"
        judgement = "can be believed" if whom == "Nothing" else "cannot be believed" if colour == "red" else care
        among = "" if whom == "Nothing" else f", {bad[0]}" if len(bad) == 1 else f", {bad[0]} among them"
        return f"{whom} {judgement} now{among}: {reason}{also}."
