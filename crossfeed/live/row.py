"""Rows beside the machine: one as it is born, and the newest of them in the channels and units of the model."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crossfeed.errors import TableError
from crossfeed.schema import Schema, conversion


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
        told = {channel.name: channel for channel in source.channels}
        self._factors = {
            channel.name: conversion(told[channel.name].unit, channel.unit)
            for channel in model.channels
            if channel.name in told
        }
        self.idle: dict[str, float | None] = {
            channel.name: channel.idle for channel in model.commands if channel.name not in told
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
