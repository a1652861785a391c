"""Rows that users bring - polars or pandas frames, dicts of arrays, plain arrays - as arrays in schema order.

Names decide, never the order of columns. Needs numpy alone, so that the checks beside a machine are those of the model.
W windows, R rows, K context rows, C sensors, A commands, T planned steps.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crossfeed.errors import ConfigError, TableError

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


def read_history(
    source: Any, sensors: tuple[str, ...], commands: tuple[str, ...], context: int
) -> tuple[np.ndarray, np.ndarray, bool]:
    """The last K rows in physical units: sensors (NaN where absent), commands, and whether it was a single window."""
    values, single = read_rows(source, sensors + commands, "history")
    if values.shape[1] < context:
        raise TableError(
            f"The history has {values.shape[1]} rows.",
            expected=f"at least {context}, the context of this model",
            remedy="Wait until enough rows were logged, or give a longer history.",
        )
    values = values[:, -context:]
    x_WKC, a_WKA = values[..., : len(sensors)], values[..., len(sensors) :]
    if not np.isfinite(x_WKC).any(axis=(1, 2)).all():
        raise TableError(
            f"A history window has no measured value of any sensor of the model ({', '.join(sensors)}).",
            expected="at least one of them",
            remedy="Rename the columns to the names of the model's schema.",
        )
    _check_complete(a_WKA, commands, "history")
    return x_WKC, a_WKA, single


def read_plan(source: Any, commands: tuple[str, ...], longest: int) -> np.ndarray:
    """Planned commands in physical units, as many steps as the longest horizon asked for: (W, T, A)."""
    values, _ = read_rows(source, commands, "planned commands")
    if values.shape[1] < longest:
        raise TableError(
            f"Commands are planned for {values.shape[1]} steps, but horizon {longest} was asked for.",
            expected=f"at least {longest} rows of planned commands",
            remedy="Plan further ahead, or ask for shorter horizons.",
        )
    values = values[:, :longest]
    _check_complete(values, commands, "planned commands")
    return values


def check_plans(histories: int, plans: int) -> None:
    """Refuse plans that cannot be told to their histories."""
    if plans not in (1, histories):
        raise TableError(
            f"There are {histories} histories and {plans} command plans.",
            expected="one plan for each history, or one plan for all",
        )


def check_horizons(horizons: Sequence[int]) -> tuple[int, ...]:
    """Whole numbers of rows from 1 on, at least one of them."""
    if not horizons or any(int(horizon) != horizon or horizon < 1 for horizon in horizons):
        raise ConfigError(f"Horizons {list(horizons)} cannot be asked for.", expected="whole numbers from 1 on")
    return tuple(int(horizon) for horizon in horizons)


def check_levels(levels: Sequence[float]) -> None:
    """Refuse quantiles that do not exist."""
    if not len(levels) or any(not 0.0 < level < 1.0 for level in levels):
        raise ConfigError(f"Quantiles {list(levels)} cannot be given.", expected="levels between 0 and 1")


def check_plausible(z: np.ndarray, names: tuple[str, ...], what: str) -> None:
    """Refuse values so far from the training data that float32 arithmetic would break; usually a wrong unit."""
    far = [name for name, column in zip(names, np.moveaxis(z, -1, 0)) if (np.abs(column) > FARTHEST).any()]
    if far:
        raise TableError(
            f"In the {what} {', '.join(far)} is more than {FARTHEST:g} standard deviations away from all that was "
            "trained on.",
            expected="values in the units of the model's schema",
            remedy="Check the units of these columns, and set broken readings to null.",
        )


def _check_complete(values: np.ndarray, names: tuple[str, ...], what: str) -> None:
    missing = [name for name, bad in zip(names, ~np.isfinite(values).all(axis=(0, 1))) if bad]
    if missing:
        raise TableError(
            f"The {what} lacks values of {', '.join(missing)}.",
            expected=f"a value of every command ({', '.join(names)}) in every row",
            remedy="A command that does not exist on this machine is held at its idle value, usually 0.",
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
