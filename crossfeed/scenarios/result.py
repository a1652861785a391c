"""The answer to a what-if: one type that terminal, forecast.json, figure, report and studio render."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from crossfeed.configuration import recorded
from crossfeed.errors import ConfigError
from crossfeed.evaluation.result import ModelFacts
from crossfeed.files import plain
from crossfeed.scenarios.measures import ENERGY_UNIT, LEVELS, Estimate, Peak
from crossfeed.show.tables import ResultTable, ShownByTables, named

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure as Drawn

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


@dataclass(frozen=True, kw_only=True)
class PlanComparison(Estimate):
    """The energy of the second plan minus that of the first, sample by sample: shared chance cancels."""

    first: str
    second: str
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
class WhatIf(ShownByTables):
    """The answer, as forecast.json holds it; `paths` are the sampled futures (samples, rows, sensors), if just made.

    Examples:
        >>> import crossfeed as cf
        >>> rows = cf.Table.read("a.parquet").to_polars()[:80]
        >>> answer = cf.what_if("run", rows[:40], {"as planned": rows[40:48]}, samples=20)
        >>> answer.paths["as planned"].shape[:2], answer.to_polars().columns[:2]
        ((20, 8), ['plan', 'time'])
        >>> answer.plot().savefig("what_if.png")
    """

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
    paths: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def title(self) -> str:
        """Whose futures these are, and how many."""
        past = self.history
        futures = f"{self.settings.samples} sampled futures"
        return f"{past.machine}, session {past.session} from {past.at:g} s on: {futures}"

    @property
    def readings(self) -> tuple[str, ...]:
        """Every later plan against the first in a sentence; it says "cannot tell" where the futures do."""
        return tuple(comparison.reading for comparison in self.comparisons)

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """What speaks against trusting the answer, of all plans and of some."""
        return (*self.warnings, *merged_warnings({name: plan.warnings for name, plan in self.plans.items()}))

    def to_dict(self) -> dict[str, Any]:
        """What forecast.json holds, as plain data."""
        return {item.name: plain(getattr(self, item.name)) for item in fields(self) if item.name != "paths"}

    @classmethod
    def from_dict(cls, content: Any, origin: str = "The forecast") -> Self:
        """The very answer that `to_dict` wrote, without its futures; content that is none is refused."""
        return recorded(cls, content, origin, "a what-if", "crossfeed what-if", "Ask again.")

    def to_polars(self) -> "polars.DataFrame":
        """One row per plan, time and sensor: mean and quantiles of the sampled futures."""
        import polars

        parts = []
        for name, plan in self.plans.items():
            for sensor, forecast in plan.sensors.items():
                constant = {"sensor": sensor, "unit": self.sensors[sensor].unit, "mean": forecast.mean}
                quantiles = {f"q{level:g}": forecast.quantiles[str(level)] for level in LEVELS}
                parts.append(polars.DataFrame({"plan": name, "time": plan.time, **constant, **quantiles}))
        return polars.concat(parts)

    def to_pandas(self) -> Any:
        """The same rows as a pandas frame."""
        from crossfeed.logs.frames import to_pandas

        return to_pandas(self.to_polars())

    def plot(self, sensors: Sequence[str] = ()) -> "Drawn":
        """All plans in one figure: fans of the sensors, the commands below, energy at the side."""
        from crossfeed.scenarios.figure import what_if_figure
        from crossfeed.show.drawing import draw

        unknown = [name for name in sensors if name not in self.sensors]
        if unknown:
            raise ConfigError(
                f"The sensor '{unknown[0]}' is none of the forecast.", expected=f"some of {', '.join(self.sensors)}"
            )
        return draw(what_if_figure(self, sensors))

    def tables(self) -> list[ResultTable]:
        """Plans side by side, and the highest values under each."""
        from crossfeed.scenarios.figure import tables

        return tables(self)

    def figures(self) -> "list[Figure]":
        """One figure for each sensor: the past, the fan of each plan, the commands."""
        from crossfeed.scenarios.figure import figures

        return list(figures(self).values())


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
