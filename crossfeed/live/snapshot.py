"""What is known at one moment beside the machine: rows in the model's channels, plan, forecast, lights, counters."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

import numpy as np

from crossfeed.errors import TableError
from crossfeed.schema import Schema, conversion

Colour = Literal["green", "amber", "red"]
_WORST: tuple[Colour, ...] = ("red", "amber", "green")


@dataclass(frozen=True, slots=True)
class Row:
    """In schema units: `time` is the end of its bin in source seconds, None is absent."""

    time: float
    values: Mapping[str, float | None]
    begins: bool  # nothing is known about the moment before it: a new session

    def floats(self, names: Sequence[str]) -> np.ndarray:
        """The values of these channels; NaN is absent."""
        return np.array([self.values[name] for name in names], dtype=np.float64)


class MachineRows:
    """The newest rows of the running session in the model's schema; names decide, units are converted."""

    def __init__(self, source: Schema, model: Schema, longest: int) -> None:
        self.schema, self._longest = model, longest
        channels = {channel.name: channel for channel in source.channels}
        self._factors = {
            channel.name: conversion(channels[channel.name].unit, channel.unit)
            for channel in model.channels
            if channel.name in channels
        }
        self.idle: dict[str, float | None] = {
            channel.name: channel.idle for channel in model.commands if channel.name not in channels
        }
        if len(self.idle) == len(model.commands):
            raise TableError(
                f"The source tells no command of the model: it has {', '.join(source.command_names)}.",
                expected=f"at least one of {', '.join(model.command_names)}",
                remedy="Name the channels in a mapping as the model does.",
            )
        self._rows: deque[Row] = deque(maxlen=longest)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    @property
    def newest(self) -> Row | None:
        return self._rows[-1] if self._rows else None

    def take(self, rows: Iterable[Row]) -> bool:
        """Add new rows and replace changed ones; True when an earlier row changed or a new session began."""
        changed = False
        for row in rows:
            mine = Row(row.time, self._converted(row.values), row.begins)
            kept = [old for old in self._rows if old.time < mine.time]
            later = [old for old in self._rows if old.time > mine.time]
            changed |= mine.begins or bool(later) or len(kept) < len(self._rows)
            if len(kept) == len(self._rows):
                self._rows.append(mine)
            else:
                self._rows = deque([*kept, mine, *later], maxlen=self._longest)
        return changed

    def running(self) -> list[Row]:
        """The rows since the session began."""
        rows: list[Row] = []
        for row in reversed(self._rows):
            rows.append(row)
            if row.begins:
                break
        return rows[::-1]

    def _converted(self, values: Mapping[str, float | None]) -> dict[str, float | None]:
        converted: dict[str, float | None] = dict.fromkeys(self.schema.sensor_names) | self.idle
        for name, factor in self._factors.items():
            value = values.get(name)
            converted[name] = None if value is None else value * factor.scale + factor.offset
        return converted


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
class LivePlannedCommands:
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
    plan: LivePlannedCommands
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
