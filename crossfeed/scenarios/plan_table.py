"""Plans as files, frames and arrays: a row per period, a column per command, units in brackets where they differ."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossfeed.errors import TableError
from crossfeed.logs.frames import read_header, to_polars
from crossfeed.logs.table import KEYS, Table
from crossfeed.programs.trajectory import CSV_HEADER
from crossfeed.scenarios.history import ON_THE_CLOCK, History
from crossfeed.schema import Schema, conversion

if TYPE_CHECKING:
    import polars as pl

TABLE_ENDINGS = (".csv", ".parquet", ".pq")
NamedColumns = dict[str, tuple[str, str | None]]  # for every name the column and the unit it states


def columns_of_file(path: Path | str) -> dict[str, Any]:
    """The columns of a file under their full headers."""
    # A quarter of a second to import, which plans that are no files do not need.
    import polars as pl

    from crossfeed.logs.delimited import read_whole

    path = Path(path)
    if not path.is_file():
        raise TableError(f"There is no plan {path}.", remedy="Check the path.")
    try:
        frame = read_whole(path, fewest=1) if path.suffix.lower() == ".csv" else pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise TableError(f"The plan {path} cannot be read as Parquet.", expected="a whole Parquet file") from error
    _check_session(frame, f"plan {path}")
    return {name: frame[name] for name in frame.columns}


def columns_of_source(source: Any, history: History) -> dict[str, Any]:
    """Named columns of a frame or table whose clock fits the history; a bare array must hold the commands in order."""
    if isinstance(source, np.ndarray):
        names = history.schema.command_names
        if source.ndim != 2 or source.shape[1] != len(names):
            raise TableError(
                f"A plan is an array of the shape {source.shape}.",
                expected=f"(rows, {len(names)}), columns {', '.join(names)}",
            )
        return dict(zip(names, source.T))
    rows = source.to_polars() if isinstance(source, Table) else to_polars(source, "plan")
    _check_session(rows, "plan")
    columns: dict[str, Any] = {column: rows[column] for column in rows.columns}
    column = next((column for column in rows.columns if read_header(column).name == "time"), None)
    if column is None:
        return columns
    stamps = rows[column]
    if stamps.dtype.is_temporal():
        seconds = stamps.dt.timestamp("us") / 1e6
        columns[column] = seconds = seconds - (seconds[0] or 0.0)
    elif stamps.dtype.is_numeric():
        seconds = stamps * conversion(read_header(column).unit or "s", "s").scale
    else:
        raise TableError(f"The column '{column}' of the plan holds {stamps.dtype}.", expected="seconds, or time stamps")
    # A plan counts from its own beginning, or goes on where the history ends; anything between is a mistake.
    period, now, begin = history.period, history.clock, seconds[0]
    starts = (0.0, period) if now is None else (0.0, period, now + period)
    if begin is not None and all(abs(begin - start) > ON_THE_CLOCK * period for start in starts):
        after = "" if now is None else f"from {now + period:,.6g} s on, or one "
        raise TableError(
            f"The plan begins at {begin:,.6g} s, but the history ends at {now or 0.0:,.6g} s.",
            expected=f"a plan {after}that counts from 0 or {period:g} s",
            remedy="Take the rows that follow the history, or leave the time out.",
        )
    return columns


def _check_session(rows: "pl.DataFrame", origin: str) -> None:
    column = next((column for column in rows.columns if read_header(column).name == "session"), None)
    if column is not None and rows[column].n_unique() > 1:
        raise TableError(
            f"The {origin} holds {rows[column].n_unique()} sessions.",
            expected="the rows of one plan, in order",
            remedy="Keep the rows of one session.",
        )


def plan_columns(columns: Mapping[str, Any], schema: Schema, period: float, origin: str) -> np.ndarray:
    """Commands (T, A) in schema order and units, or an error that names column, row and remedy."""
    origin = "plan" if origin == "plan" else f"plan {origin}"
    wanted, ignored = (*schema.command_names, "time"), {*CSV_HEADER.split(","), *KEYS, *schema.sensor_names}
    expected = f"the commands {', '.join(schema.command_names)} and, if wanted, time"
    headers = named_columns(columns, wanted, ignored, schema, origin, expected)
    missing = [name for name in schema.command_names if name not in headers]
    if missing:
        raise TableError(
            f"The {origin} lacks the commands {', '.join(missing)}.",
            expected=f"a column for each of {', '.join(schema.command_names)}",
            remedy="A command that does not exist on this machine is held at its idle value, usually 0.",
        )
    by_name = {name: _numbers(columns[header], header, origin) for name, (header, _) in headers.items()}
    lengths = sorted({len(values) for values in by_name.values()})
    if lengths[-1] == 0 or len(lengths) > 1:
        raise TableError(
            f"The columns of the {origin} have {' and '.join(map(str, lengths))} rows.",
            expected="one row per period, as many in every column, and at least one",
        )
    if "time" in headers:
        _check_clock(_converted(by_name["time"], headers["time"][1], "s"), period, origin)
    commands = np.stack(
        [
            _converted(by_name[channel.name], headers[channel.name][1] or channel.unit, channel.unit)
            for channel in schema.commands
        ],
        axis=1,
    )
    bad = ~np.isfinite(commands)
    if bad.any():
        row, column = (int(index[0]) for index in np.nonzero(bad))
        raise TableError(
            f"The {origin} lacks {schema.command_names[column]} in row {row + 1} ({(row + 1) * period:g} s), "
            f"one of {int(bad.sum())} entries without a finite number.",
            expected="a finite number of every command in every row",
        )
    return commands


def named_columns(
    columns: Iterable[str], wanted: Sequence[str], ignored: Collection[str], schema: Schema, origin: str, expected: str
) -> NamedColumns:
    """Column and declared unit of each known name; a column that is nothing known or ignored is refused."""
    named: NamedColumns = {}
    for column in columns:
        name, unit = read_header(column)
        if name in wanted:
            if name in named:
                raise TableError(
                    f"The {origin} has the columns '{named[name][0]}' and '{column}'.", expected=f"one '{name}'"
                )
            named[name] = (column, unit)
        elif name not in ignored and name.rpartition("__")[0] not in schema.sensor_names:
            near = get_close_matches(name, wanted, n=1, cutoff=0.5)
            raise TableError(
                f"The {origin} has the unknown column '{column}'.",
                expected=expected,
                remedy=f"Call it '{near[0]}' if that is meant, or leave it out." if near else "Leave the column out.",
            )
    return named


def _numbers(values: Any, header: str, origin: str) -> np.ndarray:
    try:
        array = np.array(values.to_numpy() if hasattr(values, "to_numpy") else values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TableError(
            f"Column '{header}' of the {origin} holds something that is no number: {error}", expected="numbers"
        ) from error
    if array.ndim != 1:
        raise TableError(f"Column '{header}' of the {origin} has {array.ndim} dimensions.", expected="one")
    return array


def _converted(values: np.ndarray, unit: str | None, wanted: str) -> np.ndarray:
    factor = conversion(unit or wanted, wanted)
    return np.asarray(values * factor.scale + factor.offset)


def _check_clock(time: np.ndarray, period: float, origin: str) -> None:
    """Rows must follow each other by one period of the history."""
    if not np.isfinite(time).all():
        raise TableError(
            f"The {origin} has no time in row {int(np.argmin(np.isfinite(time))) + 1}.",
            expected="a time in every row, or no time column at all",
        )
    steps = np.diff(time)
    uneven = np.flatnonzero(np.abs(steps - period) > ON_THE_CLOCK * period)
    if not len(uneven):
        return
    if np.allclose(steps, steps[0], rtol=0.0, atol=ON_THE_CLOCK * abs(steps[0])):
        problem = f"has rows every {steps[0]:g} s"
    else:
        row = int(uneven[0])
        problem = f"goes from {time[row]:g} s in row {row + 1} to {time[row + 1]:g} s in the next"
    raise TableError(
        f"The {origin} {problem}.",
        expected=f"rows every {period:g} s, the period of the history",
        remedy=f"Average the commands over each {period:g} s (crossfeed program PART --csv does with --rate "
        f"{1.0 / period:g}), or give the NC program itself.",
    )
