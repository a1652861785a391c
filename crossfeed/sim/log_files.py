"""Simulated logs as files: every column with the decimals its control writes, and what was written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from crossfeed.files import atomic_file
from crossfeed.schema import canonical
from crossfeed.sim.physics.parameters import Floats

# Decimals per unit: what a control writes, and enough that rounding stays below the noise.
DECIMALS = {
    "A": 3,
    "N m": 3,
    "kW": 4,
    "W": 1,
    "degC": 1,
    "V": 2,
    "%": 2,
    "rpm": 2,
    "deg/s": 1,
    "mm/min": 2,
    "mm/s": 3,
    "mm": 3,
    "deg": 2,
    "s": 3,
}


def rounded(values: "np.ndarray[Any, Any]", unit: str) -> "np.ndarray[Any, Any]":
    """Values with the decimals of their unit; no negative zeros."""
    return np.round(values, DECIMALS[unit]) + 0.0


def write_csv(path: Path, columns: Mapping[str, Any], header: str | None = None) -> int:
    """Write columns as one CSV file, whole or not at all; `header` is the first line where a log has a peculiar one."""
    frame = pl.DataFrame(columns).with_columns(cs.float().fill_nan(None))
    with atomic_file(path) as temporary, temporary.open("wb") as handle:
        if header is not None:
            handle.write(header.encode() + b"\n")
        frame.write_csv(handle, include_header=header is None, datetime_format="%Y-%m-%d %H:%M:%S")
    return frame.height


@dataclass
class Ranges:
    """Smallest and largest value of each canonical channel seen so far."""

    found: dict[str, tuple[float, float]] = field(default_factory=dict)

    def update(self, channel: str, values: Floats) -> None:
        """Take values into account; missing ones do not count."""
        if np.isfinite(values).any():
            low, high = self.found.get(channel, (np.inf, -np.inf))
            self.found[channel] = (min(low, float(np.nanmin(values))), max(high, float(np.nanmax(values))))

    def rows(self) -> list[tuple[str, str, float, float]]:
        """(channel, unit, lowest, highest) in canonical order."""
        return [
            (channel.name, channel.unit, *self.found[channel.name])
            for channel in canonical().channels
            if channel.name in self.found
        ]


@dataclass(frozen=True)
class LogSummary:
    """One exported log."""

    machine: str
    files: tuple[Path, ...]
    raw_rows: int  # as written, with duplicates and everything segmentation leaves out
    rows: int  # that survive the segmentation of this kind of log
    sessions: int
    seconds: float  # of machine time behind it
    ranges: Ranges
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "machine": self.machine,
            "files": self.files,
            "rows_written": self.raw_rows,
            "rows_kept": self.rows,
            "sessions": self.sessions,
            "seconds": self.seconds,
            "ranges": {name: {"unit": unit, "low": low, "high": high} for name, unit, low, high in self.ranges.rows()},
            "remarks": self.remarks,
        }
