"""Plans as CSV or Parquet: one row per period, one column per command, units in brackets where they differ."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.errors import TableError
from crossfeed.logs.frames import read_header
from crossfeed.logs.table import KEYS
from crossfeed.programs.trajectory import CSV_HEADER
from crossfeed.scenarios.history import ON_THE_CLOCK
from crossfeed.schema import Schema, conversion

TABLE_ENDINGS = (".csv", ".parquet", ".pq")
NamedColumns = dict[str, tuple[str, str | None]]  # for every name the column and the unit it states
# The commonest small table is read without a library: one header line, commas, a number in every cell.
_LARGEST = 1 << 20  # bytes; beyond it a library is quicker, its start included
_NAMES = re.compile(rb"[A-Za-z_][\w \[\]/%^*.-]*(,[A-Za-z_][\w \[\]/%^*.-]*)*")
_NUMBER = rb"-?\d+(\.\d+)?([eE][+-]?\d+)?"
_LINE = re.compile(_NUMBER + rb"(," + _NUMBER + rb")*")


def columns_of_file(path: Path | str) -> dict[str, Any]:
    """The columns of a file under their full headers."""
    path = Path(path)
    if not path.is_file():
        raise TableError(f"There is no plan {path}.", remedy="Check the path.")
    plain = plain_columns(path) if path.suffix.lower() == ".csv" else None
    if plain is not None and "session" not in plain:
        return plain
    # A quarter of a second to import, which the plans of most people do not need.
    import polars as pl

    from crossfeed.logs.delimited import read_whole

    try:
        frame = read_whole(path, fewest=1) if path.suffix.lower() == ".csv" else pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise TableError(f"The plan {path} cannot be read as Parquet.", expected="a whole Parquet file") from error
    if "session" in frame.columns and frame["session"].n_unique() > 1:
        raise TableError(
            f"The plan {path} holds {frame['session'].n_unique()} sessions.",
            expected="the rows of one plan, in order",
            remedy="Keep the rows of one session.",
        )
    return {name: frame[name] for name in frame.columns}


def plain_columns(path: Path) -> dict[str, np.ndarray] | None:
    """The columns of a small plain CSV; None for any other file, which `machines.delimited` reads or refuses."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        header, *lines = path.read_bytes().replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n")
    except OSError:
        return None
    names = header.decode("ascii", "replace").split(",")
    if not lines or not _NAMES.fullmatch(header) or len(set(names)) < len(names) or names != [n.strip() for n in names]:
        return None
    rows = [line.split(b",") for line in lines if _LINE.fullmatch(line)]
    if len(rows) < len(lines) or any(len(row) != len(names) for row in rows):
        return None
    return dict(zip(names, np.array(rows, dtype=object).astype(np.float64).T.copy(), strict=True))


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
    _check_complete(commands, schema, period, origin)
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
    # A polars column with nulls becomes None in an object array unless it is asked for floats.
    try:
        raw = values.to_numpy() if hasattr(values, "to_numpy") else values
        array = np.asarray([np.nan if value is None else value for value in np.asarray(raw).tolist()], dtype=np.float64)
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


def _check_complete(commands: np.ndarray, schema: Schema, period: float, origin: str) -> None:
    bad = ~np.isfinite(commands)
    if bad.any():
        row, column = (int(index[0]) for index in np.nonzero(bad))
        raise TableError(
            f"The {origin} lacks {schema.command_names[column]} in row {row + 1} ({(row + 1) * period:g} s), "
            f"one of {int(bad.sum())} entries without a finite number.",
            expected="a finite number of every command in every row",
        )
