"""What was promised and what came: share inside 90 %, CRPS against its own promise, a test that may be read any time.

H horizons, C sensors.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from crossfeed.distribution import Distribution
from crossfeed.live.row import Row
from crossfeed.live.snapshot import ChannelForecast, PlanUsed
from crossfeed.model.forecast import Forecast
from crossfeed.schema import Schema

LEVEL = 0.9
TOLERATED = 0.2  # misses that are forgiven: twice the promised share
_BETS = (0.25, 0.5, 1.0, 2.0, 4.0)  # below 1 / TOLERATED, so that no bet can lose everything
_RECENT = 200
_SPAN_SHARE = 0.05  # of a command's range: a plan that was off by more was not followed
_LOW, _HIGH = (1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0
_INNER_RANKS = tuple((number + 0.5) / 10 for number in range(1, 9))  # the ends of the interval are ranks as well


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
        promised = sum(one for _, one in self.crps)
        return sum(found for found, _ in self.crps) / promised if promised > 0.0 else None


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
        own = distribution.crps(torch.stack([low, *inner, high])).mean(0)
        return cls(median.numpy(), low.numpy(), high.numpy(), own.numpy())

    def __getitem__(self, window: int) -> "ForecastSummary":
        return ForecastSummary(self.median[window], self.low[window], self.high[window], self.own_crps[window])


@dataclass(frozen=True, eq=False)
class PromisedForecast:
    """A forecast with the row it starts from and the plan it assumes: a promise about the rows to come."""

    row: Row
    plan: PlanUsed
    forecast: Forecast
    summary: ForecastSummary
    doubt: float | None = None  # how far apart the members of the model are, in z-units

    def intervals(self) -> dict[str, ChannelForecast]:
        """Median and 90 % of every sensor that the machine shows."""
        told = (self.summary.median, self.summary.low, self.summary.high)
        columns = [
            (column, name) for column, name in enumerate(self.forecast.sensors) if name in self.forecast.measured
        ]
        return {
            name: ChannelForecast(*(tuple(values[:, column].tolist()) for values in told)) for column, name in columns
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
                found = row.values[name]
                if found is None or abs(found - promise.plan.commands[name][step - 1]) > self._spans[name]:
                    return False
        return True


def spans_of(schema: Schema, ranges: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """How far each command may be off the plan and still count as following it."""
    spans = {}
    for channel in schema.commands:
        low, high = ranges.get(channel.name, (0.0, 0.0))
        spans[channel.name] = max(_SPAN_SHARE * (high - low), 1e-6)
    return spans
