"""What an evaluation records, as types that need no torch: reports and tables read results where no model runs."""

from dataclasses import dataclass, field
from typing import Literal

from crossfeed.evaluation.statistics import Interval

Unit = Literal["run", "session", "program"]
Metrics = dict[str, float | None]
# What older results did not measure.
UNKNOWN = Interval(None)


@dataclass(frozen=True)
class Calibration:
    """Coverage against nominal, the width of 90 %, the PIT histogram and what its shape means."""

    coverage: dict[str, float | None]
    penalty90: float
    pit: tuple[float, ...]
    pit_deviation: float
    reading: str
    width90: float | None = None
    by_regime: dict[str, "Calibration"] = field(default_factory=dict)


@dataclass(frozen=True)
class MetricsInline:
    """A record that is written with its metrics beside its other fields, without a level of their own."""

    metrics: Metrics

    def to_dict(self) -> dict[str, object]:
        """As it is written."""
        return {
            **self.metrics,
            **{name: getattr(self, name) for name in self.__dataclass_fields__ if name != "metrics"},
        }

    @classmethod
    def gathered(cls, content: object) -> object:
        """The written form with its metrics gathered; anything else is left to be refused."""
        if not isinstance(content, dict):
            return content
        own = {name: value for name, value in content.items() if name in cls.__dataclass_fields__}
        return {**own, "metrics": {name: value for name, value in content.items() if name not in own}}


@dataclass(frozen=True)
class ChannelScores(MetricsInline):
    """The metrics of one channel in evaluation space and in its own unit; one that never moves is constant."""

    physical: Metrics
    unit: str
    constant: bool
    intervals: dict[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class FalsePlan:
    """What one false plan costs: errors over those under the true plan, with run-level intervals."""

    meaning: str
    rmse: float | None
    rmse_ratio: Interval
    mae_ratio: Interval = UNKNOWN
    crps_ratio: Interval = UNKNOWN
    runs_worse: int = 0
    runs: int = 0


@dataclass(frozen=True)
class CommandUse:
    """Errors under false plans beside the error under the true one; a ratio of 1 means: not listened to."""

    windows: int
    true_rmse: float | None
    plans: dict[str, FalsePlan]
    shuffled_by_channel: dict[str, Interval] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """As it is written: each plan under its own name."""
        known = {"windows": self.windows, "true": {"rmse": self.true_rmse}}
        return {**known, **self.plans, "shuffled_by_channel": self.shuffled_by_channel}

    @staticmethod
    def gathered(content: object) -> object:
        """The written form with its plans gathered; anything else is left to be refused."""
        if not isinstance(content, dict):
            return content
        plans = {name: row for name, row in content.items() if isinstance(row, dict) and "rmse_ratio" in row}
        return {**content, "true_rmse": (content.get("true") or {}).get("rmse"), "plans": plans}
