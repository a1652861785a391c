"""Simulated logs as files: every column with the decimals its control writes, and what was written."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from crossfeed.files import atomic_file
from crossfeed.schema import canonical
from crossfeed.sim.physics.parameters import Floats

# Decimals per unit: what a control writes, and enough that rounding stays below the noise.
DECIMALS = {"A": 3, "N m": 3, "kW": 4, "W": 1, "degC": 1, "V": 2, "%": 2, "rpm": 2, "deg/s": 1, "mm/min": 2, "mm/s": 3}
DECIMALS |= {"mm": 3, "deg": 2, "s": 3}


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


def widen(ranges: dict[str, dict[str, Any]], channel: str, values: Floats) -> None:
    """Take the smallest and the largest value of a canonical channel into account; missing ones do not count."""
    if np.isfinite(values).any():
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        before = ranges.get(channel, {"low": low, "high": high})
        unit = canonical().channel(channel).unit
        ranges[channel] = {"unit": unit, "low": min(low, before["low"]), "high": max(high, before["high"])}


@dataclass(frozen=True)
class LogSummary:
    """One exported log."""

    machine: str
    files: tuple[Path, ...]
    raw_rows: int  # as written, with duplicates and everything segmentation leaves out
    rows: int  # that survive the segmentation of this kind of log
    sessions: int
    seconds: float  # of machine time behind it
    ranges: dict[str, dict[str, Any]]  # unit, low and high of each canonical channel
    remarks: tuple[str, ...] = ()
