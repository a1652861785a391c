"""Rows that users bring - polars or pandas frames, dicts of arrays, plain arrays - as arrays in schema order.

Names decide, never the order of columns. W windows, R rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crossfeed.errors import TableError

FARTHEST = 1e6  # in z-units


def read_rows(source: Any, names: tuple[str, ...], what: str) -> tuple[np.ndarray, bool]:
    """Values as (W, R, names) with NaN for columns the source lacks, and whether the source was a single window."""
    if isinstance(source, Mapping) or hasattr(source, "columns"):
        values = _by_name(source, names, what)
    elif isinstance(source, Sequence) and not isinstance(source, str):
        if not source:
            raise TableError(f"The {what} holds no window.", expected="at least one window")
        values = _stack([read_rows(window, names, what)[0] for window in source], what)
    else:
        values = _by_position(source, names, what)
    single = values.ndim == 2
    return (values[None] if single else values), single


def check_plausible(z: np.ndarray, names: tuple[str, ...], what: str) -> None:
    """Refuse values so far from the training data that float32 arithmetic would break; usually a wrong unit."""
    far = [name for name, column in zip(names, np.moveaxis(z, -1, 0)) if (np.abs(column) > FARTHEST).any()]
    if far:
        raise TableError(
            f"The {what} has values of {', '.join(far)} more than {FARTHEST:g} standard deviations from all that was "
            "trained on.",
            expected="values in the units of the model's schema",
            remedy="Check the units of these columns, and set broken readings to null.",
        )


def _by_name(source: Any, names: tuple[str, ...], what: str) -> np.ndarray:
    """Columns by their names; a column is one value per row, or (in a dict) one row of values per window."""
    present = set(source.keys() if isinstance(source, Mapping) else source.columns)
    columns = {name: _numbers(source[name], f"column '{name}' of the {what}") for name in names if name in present}
    if not columns:
        raise TableError(
            f"The {what} has none of the columns {', '.join(names)}.",
            expected="columns named as in the model's schema",
            remedy="Rename the columns, or prepare the table with a machine declaration.",
        )
    shapes = {column.shape for column in columns.values()}
    if len(shapes) > 1 or len(next(iter(shapes))) not in (1, 2):
        raise TableError(
            f"The columns of the {what} have the shapes {', '.join(map(str, sorted(shapes)))}.",
            expected="the same number of rows in each, or (windows, rows) in each",
        )
    absent = np.full(next(iter(shapes)), np.nan)
    return np.stack([columns.get(name, absent) for name in names], axis=-1)


def _by_position(source: Any, names: tuple[str, ...], what: str) -> np.ndarray:
    """A bare array has no names, so it must hold every column in schema order."""
    values = _numbers(source, what)
    if values.ndim not in (2, 3) or values.shape[-1] != len(names):
        raise TableError(
            f"The {what} is an array of the shape {values.shape}.",
            expected=f"(rows, {len(names)}) or (windows, rows, {len(names)}), columns {', '.join(names)}",
            remedy="Give a frame or a dict of named columns when some are absent.",
        )
    return values


def _stack(windows: list[np.ndarray], what: str) -> np.ndarray:
    rows = {window.shape[1] for window in windows}
    if len(rows) > 1:
        raise TableError(f"The windows of the {what} have {sorted(rows)} rows.", expected="the same number in each")
    return np.concatenate(windows)


def _numbers(values: Any, what: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TableError(f"The {what} holds something that is no number: {error}", expected="numbers") from error
    if np.isinf(array).any():
        raise TableError(
            f"The {what} holds infinite values.", expected="finite numbers, or null where nothing was measured"
        )
    return array
