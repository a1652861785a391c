"""Tables to and from Parquet: crossfeed's own with their metadata, and foreign ones by their column names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from crossfeed.errors import TableError
from crossfeed.files import CHECKSUM, checksum, verify
from crossfeed.logs.table import KEYS, Group, hashed_bytes
from crossfeed.schema import Schema, canonical

if TYPE_CHECKING:
    from crossfeed.logs.table import Table

_METADATA = b"crossfeed"
_REMAKE = "Make the table with `crossfeed ingest`, or name its columns like the channels of the schema you give."


def to_frame(table: "Table") -> pl.DataFrame:
    """All rows with their keys, clock, channels and extras as columns; null where absent."""
    counts = [len(group) for group in table.groups]
    columns: dict[str, Any] = {}
    for key in KEYS:
        names = pl.Series([getattr(group, key) for group in table.groups], dtype=pl.String)
        columns[key] = names.gather(np.repeat(np.arange(len(counts)), counts))
    columns["time"] = table.time
    columns |= dict(zip(table.schema.sensor_names, table.sensors.T, strict=True))
    columns |= dict(zip(table.schema.command_names, table.commands.T, strict=True))
    return pl.DataFrame(columns | table.extras, nan_to_null=True)


def write_table(table: "Table", path: Path) -> None:
    """Write the rows, with schema, period and manifest as metadata."""
    content = {"schema": table.schema.model_dump(mode="json"), "period": table.period, "manifest": table.manifest}
    # As JSON keeps it, so that the hash is that of what will be read.
    content = json.loads(json.dumps(content, allow_nan=False))
    content[CHECKSUM] = checksum(content, _blocks(table))
    arrow = (
        to_frame(table).to_arrow().replace_schema_metadata({_METADATA: json.dumps(content, allow_nan=False).encode()})
    )
    pq.write_table(arrow, path, compression="zstd")  # polars calls a full disk a damaged file


def read_parts(path: Path, schema: Schema | None) -> dict[str, Any]:
    """The fields of the `Table` in a Parquet file."""
    from crossfeed.logs.table import Table

    frame, content = _read(path)
    if content is None:
        return _foreign(frame, schema or canonical(), path)
    stored = Schema.from_mapping(content["schema"], origin=f"The schema inside {path}")
    if schema is not None and schema.fingerprint != stored.fingerprint:
        raise TableError(
            f"{path} was made with the schema '{stored.name}', not with '{schema.name}'.",
            expected="the schema the table was made with",
            remedy="Leave the schema out, or ingest the logs again with the other schema.",
        )
    parts = _columns(frame, stored, path)
    parts |= {"schema": stored, "period": float(content["period"]), "manifest": content["manifest"]}
    stated = content.pop(CHECKSUM, None)
    remedy = "Copy the table again from where it was made, or ingest the logs again."
    verify(path, stated, checksum(content, _blocks(Table(**parts))), remedy, TableError)
    return parts


def _blocks(table: "Table") -> Iterator[bytes]:
    """What a table file holds beside its metadata: the rows by their fingerprint, and further columns by name."""
    yield table.fingerprint().encode()
    for name in sorted(table.extras):
        yield name.encode()
        yield hashed_bytes(table.extras[name])


def has_own_schema(path: Path) -> bool:
    """Whether a file says itself what its channels are, as the tables of `crossfeed ingest` do."""
    try:
        return _METADATA in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False  # reading the table says what is wrong with it


def _read(path: Path) -> tuple[pl.DataFrame, dict[str, Any] | None]:
    """The rows of a file, and crossfeed's metadata if it has any; polars panics where a file is damaged."""
    if not path.is_file():
        raise TableError(f"There is no table {path}.", expected="a Parquet file", remedy="Check the path.")
    try:
        arrow = pq.ParquetFile(path).read()  # read_table would import pandas where it is installed
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{path} cannot be read as Parquet: {error}",
            expected="a Parquet file",
            remedy="Turn raw logs into a table with `crossfeed ingest`.",
        ) from error
    frame, text = pl.DataFrame(pl.from_arrow(arrow)), (arrow.schema.metadata or {}).get(_METADATA)
    if frame.is_empty():
        raise TableError(f"{path} has no rows.", expected="at least one row")
    if text is None:
        return frame, None
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict) or not {"schema", "period", "manifest"} <= content.keys():
        raise TableError(
            f"The crossfeed metadata inside {path} is damaged.",
            expected="JSON with schema, period and manifest",
            remedy=_REMAKE,
        )
    return frame, content


def _foreign(frame: pl.DataFrame, schema: Schema, path: Path) -> dict[str, Any]:
    """Understand a table without metadata: channels by name, one row order, the period from the clock."""
    names = set(frame.columns)
    missing = [] if "time" in names else ["time"]
    if not names & set(schema.sensor_names):
        missing.append(f"any sensor of the schema '{schema.name}' ({', '.join(schema.sensor_names)})")
    if not names & set(schema.command_names):
        missing.append(f"any command of the schema '{schema.name}' ({', '.join(schema.command_names)})")
    if missing:
        raise TableError(
            f"{path} was not made by crossfeed and lacks {'; '.join(missing)}. "
            f"Its columns: {', '.join(frame.columns)}.",
            expected="'time' in seconds and columns named like the channels of the schema",
            remedy=_REMAKE,
        )
    parts = _columns(frame, schema, path)
    infinite = 0
    for name in ("sensors", "commands"):
        bad = np.isinf(parts[name])
        infinite += int(bad.sum())
        parts[name][bad] = np.nan
    inside = np.ones(len(parts["time"]) - 1, dtype=bool)
    inside[[group.stop - 1 for group in parts["groups"][:-1]]] = False
    steps = np.diff(parts["time"])[inside]
    steps = steps[np.isfinite(steps) & (steps > 0)]
    if not len(steps):
        raise TableError(
            f"The clock of {path} never advances inside a session.",
            expected="a 'time' column in seconds that grows inside each session",
        )
    manifest = {
        "origin": "not made by crossfeed",
        "file": path.name,
        "repairs": {"infinite values made absent": infinite} if infinite else {},
        "absent_channels": [channel.name for channel in schema.channels if channel.name not in names],
    }
    return parts | {"schema": schema, "period": float(np.median(steps)), "manifest": manifest}


def _columns(frame: pl.DataFrame, schema: Schema, path: Path) -> dict[str, Any]:
    """Groups, clock, channels by name and whatever else is a number."""

    def block(names: tuple[str, ...]) -> np.ndarray:
        values = np.full((frame.height, len(names)), np.nan)
        for place, name in enumerate(names):
            if name in frame.columns:
                values[:, place] = _numbers(frame[name], path)
        return values

    channels = {*KEYS, "time", *schema.sensor_names, *schema.command_names}
    return {
        "groups": groups_of(frame, path.stem),
        "time": _numbers(frame["time"], path),
        "sensors": block(schema.sensor_names),
        "commands": block(schema.command_names),
        "extras": {c.name: _numbers(c, path) for c in frame if c.name not in channels and _is_numeric(c)},
    }


def _is_numeric(column: pl.Series) -> bool:
    return column.dtype.is_numeric() or column.dtype == pl.Boolean


def _numbers(column: pl.Series, path: Path) -> np.ndarray:
    """A column as floats with NaN for null; a time stamp becomes seconds."""
    if column.name == "time" and column.dtype == pl.Datetime:
        return (column.dt.timestamp("ns").cast(pl.Float64) / 1e9).to_numpy(writable=True)
    if not (_is_numeric(column) or column.dtype == pl.Null):
        raise TableError(
            f"Column '{column.name}' of {path} holds {column.dtype}.",
            expected="numbers (null where absent)",
            remedy="Convert the column to numbers, or ingest the logs with a mapping.",
        )
    return column.cast(pl.Float64).to_numpy(writable=True)


def groups_of(frame: pl.DataFrame, label: str) -> tuple[Group, ...]:
    """Contiguous rows with the same machine, run and session; a missing key column counts as one constant."""
    constants = {"machine": label, "session": "all", "run": "all", "program": ""}
    keys = frame.with_columns(
        pl.col(key).cast(pl.String).fill_null("") if key in frame.columns else pl.lit(constants[key]).alias(key)
        for key in KEYS
    ).select(KEYS)
    changes = (pl.col(key).ne_missing(pl.col(key).shift(1)) for key in ("machine", "session", "run"))
    starts = keys.select(pl.any_horizontal(changes).arg_true()).to_series().to_list()
    first = keys[starts].to_dicts()
    return tuple(
        Group(**names, start=start, stop=stop)
        for names, start, stop in zip(first, starts, [*starts[1:], frame.height], strict=True)
    )
