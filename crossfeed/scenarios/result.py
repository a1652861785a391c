"""What a what-if says: one type that terminal, forecast.json, figure, report and studio render (docs/forecast.md)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from crossfeed.configuration import recorded
from crossfeed.evaluation.result import ModelFacts
from crossfeed.files import atomic_file, plain
from crossfeed.scenarios.measures import ENERGY_UNIT, LEVELS, Estimate, Peak
from crossfeed.show.tables import ResultTable, ShownByTables, named

if TYPE_CHECKING:
    from crossfeed.show.figures import Figure

FORMAT = "crossfeed-forecast/1"
Values = list[float | None]
# Lines of a program are names: those of two programs are no range.
_NUMBER = re.compile(r"(?<!line )(?<![\w.,])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?%?(?!\w)")


@dataclass(frozen=True)
class ForecastChannel:
    """What a channel measures."""

    quantity: str
    unit: str


@dataclass(frozen=True)
class RowsBefore:
    """Where the forecast starts, with the last rows before it; `time` counts back from zero."""

    file: str | None
    fingerprint: str
    machine: str
    run: str
    session: str
    program: str
    at: float
    period: float
    time: list[float]
    sensors: dict[str, Values]
    commands: dict[str, Values]


@dataclass(frozen=True)
class SensorForecast:
    """A distribution for every row of a plan; quantiles by their level."""

    mean: list[float]
    quantiles: dict[str, list[float]]


@dataclass(frozen=True)
class PlanEnergy(Estimate):
    """The energy of a plan, summed over the power sensors; the true one where it is known."""

    unit: str = ENERGY_UNIT
    sensors: tuple[str, ...] = ()
    truth: float | None = None


@dataclass(frozen=True)
class PlanForecast:
    """One plan: its commands, a distribution for every row and sensor, energy and peaks."""

    kind: str
    file: str | None
    duration: float
    time: list[float]
    commands: dict[str, Values]
    sensors: dict[str, SensorForecast]
    truth: dict[str, Values] | None
    energy: PlanEnergy | None
    peaks: dict[str, Peak]
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PlanComparison:
    """The energy of the second plan minus that of the first, sample by sample: shared chance cancels."""

    first: str
    second: str
    mean: float
    low: float
    high: float
    level: float
    unit: str
    probability_less: float
    reading: str = ""


@dataclass(frozen=True)
class SamplingSettings:
    """How the futures were sampled."""

    samples: int
    seed: int
    persistence: float
    context: int
    horizons: tuple[int, ...]
    levels: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class WhatIfResult(ShownByTables):
    """What forecast.json holds."""

    format: str = FORMAT
    model: ModelFacts
    history: RowsBefore
    settings: SamplingSettings
    sensors: dict[str, ForecastChannel]
    commands: dict[str, ForecastChannel]
    absent: list[str]
    plans: dict[str, PlanForecast]
    comparisons: list[PlanComparison]
    warnings: list[str]

    @property
    def title(self) -> str:
        """Whose futures these are, and how many."""
        past = self.history
        futures = f"{self.settings.samples} sampled futures"
        return f"{past.machine}, session {past.session} from {past.at:g} s on: {futures}"

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """What speaks against trusting the answer, of all plans and of some."""
        return (*self.warnings, *merged_warnings({name: plan.warnings for name, plan in self.plans.items()}))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {item.name: plain(getattr(self, item.name)) for item in fields(self)}

    @classmethod
    def from_dict(cls, content: Any, origin: str = "The forecast") -> Self:
        """The very answer that `to_dict` wrote; content that is none is refused."""
        return recorded(cls, content, origin, "a what-if", "crossfeed what-if", "Ask again.")

    def tables(self) -> list[ResultTable]:
        """Plans side by side, and the highest values under each."""
        from crossfeed.scenarios.figure import tables

        return tables(self)

    def figures(self) -> "list[Figure]":
        """One figure for each sensor: the past, the fan of each plan, the commands."""
        from crossfeed.scenarios.figure import figures

        return list(figures(self).values())

    def columns(self) -> dict[str, list[Any]]:
        """One entry per plan, time and sensor in each column: mean and quantiles of the sampled futures."""
        columns: dict[str, list[Any]] = {
            name: [] for name in ("plan", "time", "sensor", "unit", "mean", *(f"q{level:g}" for level in LEVELS))
        }
        for name, plan in self.plans.items():
            rows = len(plan.time)
            for sensor, forecast in plan.sensors.items():
                constant = {"plan": name, "sensor": sensor, "unit": self.sensors[sensor].unit}
                moving = {"time": plan.time, "mean": forecast.mean}
                moving |= {f"q{level:g}": forecast.quantiles[str(level)] for level in LEVELS}
                for column, values in (moving | {key: [value] * rows for key, value in constant.items()}).items():
                    columns[column] += values
        return columns

    def write_csv(self, path: Path | str) -> None:
        """One row per plan, time and sensor."""
        columns = self.columns()
        with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(",".join(columns) + "\n")
            for name, time, sensor, unit, *values in zip(*columns.values(), strict=True):
                quoted = '"' + name.replace('"', '""') + '"'
                file.write(f"{quoted},{time:g},{sensor},{unit},{','.join(f'{value:.6g}' for value in values)}\n")


def merged_warnings(warnings: Mapping[str, Sequence[str]]) -> list[str]:
    """The warnings of each plan; where they differ in their numbers alone, one tells from which to which these go."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, texts in warnings.items():
        for text in texts:
            alike.setdefault(_NUMBER.sub("", text), []).append((name, text))
    return [_together(pairs) for pairs in alike.values()]


def _together(pairs: Sequence[tuple[str, str]]) -> str:
    names, texts = zip(*pairs, strict=True)
    ranges = map(_range, zip(*map(_NUMBER.findall, texts), strict=True))
    return f"{named(tuple(dict.fromkeys(names)), 'plans')}: " + _NUMBER.sub(lambda _: next(ranges), texts[0])


def _range(numbers: Sequence[str]) -> str:
    ascending = sorted(set(numbers), key=lambda number: float(number.rstrip("%").replace(",", "")))
    return ascending[0] if len(ascending) == 1 else f"{ascending[0]} to {ascending[-1]}"
