"""Logs as CSV files: every column with the decimals its control writes, the file whole or not at all."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from crossfeed.atomic import atomic_file

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
    """Write columns as one CSV file, with a header line of one's own where the log has a peculiar one."""
    frame = pl.DataFrame(columns).with_columns(cs.float().fill_nan(None))
    with atomic_file(path) as temporary, temporary.open("wb") as handle:
        if header is not None:
            handle.write(header.encode() + b"\n")
        frame.write_csv(handle, include_header=header is None, datetime_format="%Y-%m-%d %H:%M:%S")
    return frame.height
