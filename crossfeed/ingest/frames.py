"""The frames people have in memory - pandas, polars, pyarrow, dicts of columns - as polars frames, and back."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from crossfeed.errors import CrossfeedError, TableError

if TYPE_CHECKING:
    import polars as pl

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
        if isinstance(frame, Mapping):
            return pl.DataFrame(dict(frame))
        if type(frame).__module__.partition(".")[0] == "pandas" and hasattr(frame, "columns"):
            return pl.from_pandas(_with_index(frame, what))
        if hasattr(frame, "__arrow_c_stream__") or type(frame).__module__.partition(".")[0] == "pyarrow":
            found = pl.from_arrow(frame)
            if isinstance(found, pl.DataFrame):
                return found
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
