"""Tables and histories from whatever a user holds: a table, its file, or a frame of the last rows.

A table may hold many sessions; a frame is one moment, so its clock, order, sessions and columns are checked strictly.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossfeed.errors import TableError
from crossfeed.logs.align import as_table, check_row_period
from crossfeed.logs.frames import to_polars
from crossfeed.logs.table import KEYS, Group, Table
from crossfeed.scenarios.history import ON_THE_CLOCK, History, read_history
from crossfeed.scenarios.plan_table import NamedColumns, named_columns
from crossfeed.schema import Schema, conversion

if TYPE_CHECKING:
    import polars as pl

    from crossfeed.evaluation.opened_model import OpenedModel


def history_of(opened: "OpenedModel", history: Any, session: str | None, at: float | None) -> History:
    """The rows before the forecast, checked against the model."""
    model = opened.model
    if isinstance(history, Table | Path | str):
        table = as_table(history, model.schema, "history")
    else:
        table = table_of_rows(history, model.schema, opened.provenance.get("row_period"))
    file = Path(history).name if isinstance(history, Path | str) else None
    moment = read_history(table, model, session, at, file)
    opened.check_rows(moment.period, f"The table with {moment.title}")
    return moment


def table_of_rows(frame: Any, schema: Schema, period: float | None) -> Table:
    """A table of one session from consecutive rows, which must be just that."""
    rows = to_polars(frame, "history")
    known = (*schema.sensor_names, *schema.command_names, "time", *KEYS)
    named = named_columns(rows.columns, known, (), schema, "history", f"only {', '.join(known)}")
    keys = {key: _only(rows, named, key) for key in KEYS}
    time = _clock(rows, named)
    found = _period(time, period)
    group = Group(
        keys["machine"] or "machine", keys["session"] or "history", keys["run"] or "history", keys["program"] or "",
        0, len(time),
    )  # fmt: skip
    sensors, commands = (_values(rows, named, schema, names) for names in (schema.sensor_names, schema.command_names))
    return Table(schema, (group,), time, sensors, commands, found, {"origin": "a frame in memory"})


def _only(rows: "pl.DataFrame", named: NamedColumns, key: str) -> str | None:
    """The one machine, session, run or program of the rows; programs may follow each other within a session."""
    if key not in named:
        return None
    names = [str(name) for name in rows[named[key][0]].unique(maintain_order=True).to_list()]
    if len(names) > 1 and key != "program":
        raise TableError(
            f"The history holds {len(names)} {key}s: {', '.join(names[:6])}{', ...' if len(names) > 6 else ''}.",
            expected=f"the rows of one {key}",
            remedy=f"Keep the rows of one, for instance frame[frame['{named[key][0]}'] == '{names[-1]}'], or give a "
            "Table and name the session.",
        )
    return names[-1]


def _clock(rows: "pl.DataFrame", named: NamedColumns) -> np.ndarray:
    """Seconds that grow from row to row."""
    import polars as pl

    if "time" not in named:
        raise TableError(
            "The history has no column 'time', so nobody can see whether its rows follow each other.",
            expected="'time' in seconds, or as time stamps",
            remedy="Add the clock of the log as 'time'.",
        )
    column, unit = named["time"]
    stamps = rows[column]
    if stamps.dtype == pl.Datetime:
        seconds = stamps.dt.timestamp("us").cast(pl.Float64).to_numpy() / 1e6
    elif stamps.dtype.is_numeric():
        seconds = stamps.cast(pl.Float64).to_numpy() * conversion(unit or "s", "s").scale
    else:
        raise TableError(
            f"The column 'time' of the history holds {stamps.dtype}.",
            expected="seconds, or time stamps",
            remedy="Turn it into times, for instance with pandas.to_datetime.",
        )
    if not np.isfinite(seconds).all():
        row = int(np.argmin(np.isfinite(seconds)))
        raise TableError(f"The history has no time in row {row + 1}.", expected="a time in every row")
    back = np.flatnonzero(np.diff(seconds) <= 0.0)
    if len(back):
        row = int(back[0])
        same = seconds[row + 1] == seconds[row]
        raise TableError(
            f"The time of the history {'stands still' if same else 'goes back'} from row {row + 1} to row {row + 2} "
            f"({seconds[row]:.3f} s, then {seconds[row + 1]:.3f} s).",
            expected="rows in the order of time, each time once",
            remedy="Keep one row of each time." if same else "Sort the rows by time.",
        )
    return np.asarray(seconds)


def _period(time: np.ndarray, wanted: float | None) -> float:
    """The time between rows; rows at another rate than the model's are refused, gaps are left to `read_history`."""
    steps = np.diff(time)
    usual = float(np.median(steps)) if len(steps) else wanted or 1.0
    if wanted is None:
        return usual
    if abs(usual - wanted) > ON_THE_CLOCK * wanted:
        check_row_period(usual, wanted, "The history", "the model was trained on one")
    return wanted


def _values(rows: "pl.DataFrame", named: NamedColumns, schema: Schema, names: tuple[str, ...]) -> np.ndarray:
    """Columns (rows, names) in the units of the schema; NaN where nothing was measured."""
    import polars as pl

    values = np.full((rows.height, len(names)), np.nan)
    for position, name in enumerate(names):
        if name not in named:
            continue
        column, unit = named[name]
        if not (rows[column].dtype.is_numeric() or rows[column].dtype in (pl.Boolean, pl.Null)):
            raise TableError(f"Column '{column}' of the history holds {rows[column].dtype}.", expected="numbers")
        factor = conversion(unit or schema.channel(name).unit, schema.channel(name).unit)
        values[:, position] = rows[column].cast(pl.Float64).to_numpy() * factor.scale + factor.offset
        if np.isinf(values[:, position]).any():
            raise TableError(
                f"Column '{column}' of the history holds infinite values.",
                expected="finite numbers, null where nothing was measured",
            )
    return values
