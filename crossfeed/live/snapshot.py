"""What is known at one moment beside the machine: history, plan, forecast, lights, counters."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from crossfeed.live.row import Row
from crossfeed.schema import Schema

Colour = Literal["green", "amber", "red"]
_WORST: tuple[Colour, ...] = ("red", "amber", "green")


@dataclass(frozen=True, slots=True)
class Light:
    """Whether something may be believed, and why."""

    colour: Colour
    sentence: str


def worst(lights: Mapping[str, Light]) -> Colour:
    """The colour that counts for the whole."""
    return min((light.colour for light in lights.values()), key=_WORST.index, default="green")


@dataclass(frozen=True, slots=True)
class ChannelForecast:
    """One sensor at every horizon: the median and the interval that holds 90 %."""

    median: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RecentRows:
    """The newest rows: ends of their bins in source seconds since 1970, and None wherever nothing is known."""

    times: tuple[float, ...] = ()
    sensors: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    commands: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[Row], schema: Schema) -> "RecentRows":
        """By channel."""
        return cls(
            tuple(row.time for row in rows),
            {name: tuple(row.values[name] for row in rows) for name in schema.sensor_names},
            {name: tuple(row.values[name] for row in rows) for name in schema.command_names},
        )


@dataclass(frozen=True, slots=True)
class PlanUsed:
    """The commands that the forecast assumes, one row per period, and a sentence that says whose they are.

    `following` are those after them, up to the end of the running program where there is one.
    """

    kind: Literal["program", "held", "none", "followed"]
    sentence: str
    commands: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    following: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counters:
    """What happened since the start; `skew` is how far the source's clock lies behind ours, in seconds."""

    samples: int = 0
    rows: int = 0
    gaps: int = 0
    late: int = 0
    dropped: int = 0
    doubled: int = 0
    reconnects: int = 0
    restarts: int = 0
    skew: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a page or a terminal shows."""

    machine: str
    source: str
    clock: datetime  # ours, UTC
    row_age: float | None  # s of ours since the end of the newest row
    forecast_age: float | None  # s of ours since the end of the row from which the forecast starts
    period: float
    sensors: tuple[str, ...]
    commands: tuple[str, ...]
    units: Mapping[str, str]
    recent: RecentRows
    plan: PlanUsed
    horizons: tuple[int, ...]
    forecast: Mapping[str, ChannelForecast]  # empty while there is none
    lights: Mapping[str, Light]  # by sensor
    verdict: Light
    counters: Counters
    notices: tuple[str, ...] = ()  # the newest first
    learning: str = ""  # how far learning has come, where it was asked for

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON holds it."""
        content = asdict(self)
        content["clock"] = self.clock.isoformat()
        return content
