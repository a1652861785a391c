"""What an export wrote: files, rows, sessions, and the range of every channel."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.machines.simulated.noise import Floats
from crossfeed.schema import canonical


@dataclass
class Ranges:
    """Smallest and largest value of each canonical channel seen so far."""

    found: dict[str, tuple[float, float]] = field(default_factory=dict)

    def see(self, channel: str, values: Floats) -> None:
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

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "machine": self.machine,
            "files": [str(path) for path in self.files],
            "rows_written": self.raw_rows,
            "rows_kept": self.rows,
            "sessions": self.sessions,
            "seconds": self.seconds,
            "ranges": {name: {"unit": unit, "low": low, "high": high} for name, unit, low, high in self.ranges.rows()},
            "remarks": list(self.remarks),
        }
