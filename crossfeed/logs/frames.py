"""The frames people have in memory - pandas, polars, pyarrow, dicts of columns - as polars frames, as tables, and back.

A frame becomes a table by the same way as a log: units, sessions, causal resampling, manifest.
"""

import re
from collections.abc import Mapping as Dict
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crossfeed.errors import CrossfeedError, TableError
from crossfeed.logs.table import KEYS, Group
from crossfeed.schema import Schema, canonical

if TYPE_CHECKING:
    import polars as pl

    from crossfeed.logs.mapping import Mapping
    from crossfeed.logs.table import Table

_NUMBER = "@number"
FRAME = Path("frame")  # stands where messages and runs name the file of a log
_HEADER = re.compile(r"\s*(?P<name>[^\[\]]*?)\s*(?:\[\s*(?P<unit>[^\[\]]*?)\s*\])?\s*")
_KINDS = "a pandas, polars or pyarrow table, or a dict of columns"


class Header(NamedTuple):
    """What a column is called, and the unit it states in brackets, if any: `feed_x [mm/s]`."""

    name: str
    unit: str | None


def read_header(header: str) -> Header:
    """The name and the unit of a column."""
    match = _HEADER.fullmatch(header)
    return Header(match["name"], match["unit"] or None) if match else Header(header, None)


def to_polars(frame: Any, what: str = "frame") -> "pl.DataFrame":
    """Any frame as a polars one; the index of a pandas frame becomes a column where it has a name or holds times."""
    import polars as pl
    from polars import selectors

    rows = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    rows = rows if isinstance(rows, pl.DataFrame) else _converted(rows, what)
    if not rows.height or not rows.width:
        raise TableError(
            f"The {what} has {rows.height} rows and {rows.width} columns.", expected="at least one of each"
        )
    return rows.with_columns(selectors.float().fill_nan(None))  # absent is null, however it was written


def _converted(frame: Any, what: str) -> "pl.DataFrame":
    import polars as pl

    try:
        if isinstance(frame, Dict):
            return pl.DataFrame(dict(frame))
        if type(frame).__module__.partition(".")[0] == "pandas" and hasattr(frame, "columns"):
            return pl.from_pandas(_with_index(frame, what))
        if hasattr(frame, "__arrow_c_stream__") or type(frame).__module__.partition(".")[0] == "pyarrow":
            rows = pl.from_arrow(frame)
            if isinstance(rows, pl.DataFrame):
                return rows
    except CrossfeedError:
        raise
    except Exception as error:  # polars, pyarrow and pandas raise their own dozens of types
        raise TableError(f"The {what} cannot be read: {error}", expected=f"{_KINDS}, one type a column") from error
    raise TableError(f"An object of the type {type(frame).__name__} is no {what}.", expected=_KINDS)


def _with_index(frame: Any, what: str) -> Any:
    """A pandas frame whose index is a column if it says anything."""
    if any(not isinstance(name, str) for name in frame.columns):
        raise TableError(f"The {what} has columns without a plain name: {list(frame.columns)[:4]}.", expected="texts")
    index = frame.index
    if hasattr(index, "tz_localize"):  # times
        return frame.rename_axis(index.name or "time").reset_index()
    return frame.reset_index() if index.name else frame


def to_pandas(frame: "pl.DataFrame") -> Any:
    """A polars frame as a pandas one."""
    try:
        import pandas
    except ImportError as error:
        raise TableError(
            "pandas is not installed.", expected="pandas", remedy="Install it (pip install pandas), or use to_polars()."
        ) from error
    return pandas.DataFrame({name: frame[name].to_numpy() for name in frame.columns})


def table_from_frame(
    frame: Any,
    mapping: "Mapping | dict[str, Any] | Path | str | None",
    schema: Schema | None,
    units: Dict[str, str] | None,
    machine: str | None,
    period: float | None,
) -> "Table":
    """See `Table.from_frame`."""
    from crossfeed.logs.mapped_logs import log_format_of
    from crossfeed.logs.mapping import Mapping
    from crossfeed.logs.pipeline import ingest

    if mapping is None and hasattr(getattr(frame, "index", None), "tz_localize") and "time" not in frame.columns:
        frame = frame.rename_axis("time")  # an index of times is the clock, whatever it is called
    rows, sessions = to_polars(frame), None
    if mapping is None:
        mapping = Mapping.of(_by_names(rows, schema or canonical(), units or {}, machine), "the names of the columns")
        period = usual_step(rows) if period is None else period
        rows, sessions = _numbered(rows)
    elif schema is not None or units is not None:
        raise TableError(
            "Both a mapping and schema or units were given.",
            expected="one of them",
            remedy="State schema and units in the mapping.",
        )
    elif isinstance(mapping, dict):
        mapping = Mapping.of(mapping, "given as a dict")
    elif not isinstance(mapping, Mapping):
        mapping = Mapping.from_yaml(mapping)
    table = ingest(log_format_of(mapping, rows), FRAME, period=period, machine=machine)
    groups = table.groups if sessions is None else _renamed(table.groups, sessions)
    return replace(table, groups=groups, manifest=table.manifest | {"origin": "a frame in memory"})


def _by_names(frame: "pl.DataFrame", schema: Schema, units: Dict[str, str], machine: str | None) -> dict[str, Any]:
    """The content of the mapping that the names of the columns imply; what they leave open is refused."""
    headers = {column: read_header(column) for column in frame.columns}
    column_of: dict[str, str] = {}
    for column, header in headers.items():
        if column_of.setdefault(header.name, column) != column:
            raise TableError(
                f"The frame has the columns '{column_of[header.name]}' and '{column}'.", expected=f"one '{header.name}'"
            )
    names = schema.sensor_names + schema.command_names
    _refuse_unknown(headers, schema, names)
    channels = {name: column for name, column in column_of.items() if name in names}
    if strange := [name for name in units if name not in channels]:
        raise TableError(
            f"A unit is given for '{strange[0]}', which is no channel of the frame.",
            expected=f"some of {', '.join(channels)}",
        )
    if not set(channels) & set(schema.sensor_names):
        raise TableError(
            "The frame has no sensor.",
            expected=f"at least one of {', '.join(schema.sensor_names)}",
            remedy="Rename the columns, or describe them with a mapping.",
        )
    if missing := [name for name in schema.command_names if name not in channels]:
        raise TableError(
            f"The frame has no {', '.join(missing)}.",
            expected=f"a column for every command ({', '.join(schema.command_names)})",
            remedy=f"What the machine does not have stands still: frame['{missing[0]}'] = 0.0.",
        )
    for column in channels.values():
        dtype = frame[column].dtype
        if not (dtype.is_numeric() or str(dtype) in ("Boolean", "Null")):
            raise TableError(
                f"Column '{column}' of the frame holds {dtype}.",
                expected="numbers, null where nothing was measured",
                remedy="Turn the column into numbers, for instance with pandas.to_numeric.",
            )
    if (clock := column_of.get("time")) is None:
        raise TableError(
            f"The frame has no column 'time'. Its columns: {', '.join(frame.columns)}.",
            expected="'time' in seconds, or as time stamps",
            remedy="Rename the clock to 'time', or describe the columns with a mapping.",
        )
    columns = [
        {
            "native": column,
            "channel": name,
            "unit": units.get(name) or headers[column].unit or schema.channel(name).unit,
        }
        for name, column in channels.items()
    ]
    content: dict[str, Any] = {"machine": machine or _machine(frame, column_of), "schema": schema, "columns": columns}
    content["time"] = {"column": clock} | (
        {"unit": headers[clock].unit or "s"} if frame[clock].dtype.is_numeric() else {}
    )
    if "session" in column_of or "run" in column_of:
        content["run"] = {"column": _NUMBER}
    if "program" in column_of:
        content["program"] = {"column": column_of["program"]}
    return content


def _refuse_unknown(headers: Dict[str, Header], schema: Schema, names: tuple[str, ...]) -> None:
    known = (*names, "time", *KEYS)
    unknown = [
        column
        for column, header in headers.items()
        if header.name not in known and header.name.rpartition("__")[0] not in schema.sensor_names
    ]
    if unknown:
        guesses = {column: get_close_matches(headers[column].name, known, n=1, cutoff=0.6) for column in unknown}
        told = [f"'{column}' (is it '{near[0]}'?)" if near else f"'{column}'" for column, near in guesses.items()]
        raise TableError(
            f"The frame has columns that the schema '{schema.name}' does not know: {', '.join(told)}.",
            expected=f"time, {', '.join(KEYS)} and the channels {', '.join(names)}",
            remedy="Rename them, leave them out, or describe the frame with a mapping (`crossfeed data template`).",
        )


def _machine(frame: "pl.DataFrame", named: Dict[str, str]) -> str:
    if "machine" not in named:
        return "machine"
    names = frame[named["machine"]].unique(maintain_order=True).to_list()
    if len(names) > 1:
        raise TableError(
            f"The frame holds {len(names)} machines: {', '.join(map(str, names[:6]))}.",
            expected="one machine",
            remedy="Make one table of each; cf.fit takes several.",
        )
    return str(names[0])


def _numbered(frame: "pl.DataFrame") -> tuple["pl.DataFrame", dict[str, tuple[str, str | None]] | None]:
    """The frame with a number for each session (each has a clock of its own), and the run and session it stands for."""
    import polars as pl

    named = {read_header(column).name: column for column in frame.columns}
    keys = [named[key] for key in ("run", "session") if key in named]
    if not keys:
        return frame, None
    texts = frame.select(pl.col(key).cast(pl.String).fill_null("") for key in keys)
    number = texts.select(pl.struct(pl.all()).rank("dense").cast(pl.String).alias(_NUMBER)).to_series()
    runs = texts[named["run"]] if "run" in named else texts[named["session"]]
    sessions = texts[named["session"]].to_list() if "session" in named else [None] * len(number)
    return frame.with_columns(number), dict(zip(number.to_list(), zip(runs.to_list(), sessions)))


def _renamed(groups: tuple[Group, ...], named: Dict[str, tuple[str, str | None]]) -> tuple[Group, ...]:
    """The groups under the names of the frame; the parts of a session that was cut at a gap are counted."""
    parts: dict[str, int] = {}
    renamed = []
    for group in groups:
        run, session = named[group.run]
        parts[group.run] = parts.get(group.run, 0) + 1
        if session is None:
            name = f"{run}-{parts[group.run]:03d}"
        else:
            name = session if parts[group.run] == 1 else f"{session}-{parts[group.run]}"
        renamed.append(replace(group, run=run, session=name))
    return tuple(renamed)


def usual_step(frame: "pl.DataFrame") -> float:
    """The seconds between two rows of the same session, most of the time, to three digits."""
    from crossfeed.logs.clock import clock_of

    column = next(name for name in frame.columns if read_header(name).name == "time")
    stamps = frame[column]
    clock = clock_of(stamps, (read_header(column).unit or "s") if stamps.dtype.is_numeric() else None)
    steps = clock.diff().drop_nulls()
    steps = steps.filter(steps > 0)
    if steps.is_empty():
        raise TableError("The clock of the frame never advances.", expected="a 'time' that grows from row to row")
    return float(f"{float(steps.median()) / 1e6:.3g}")  # type: ignore[arg-type]
