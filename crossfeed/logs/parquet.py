"""Tables to and from Parquet: crossfeed's own with their metadata, and foreign ones by their column names."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossfeed.errors import TableError
from crossfeed.files import CHECKSUM, checksum, verify
from crossfeed.logs.table import KEYS, Group, hashed_bytes
from crossfeed.schema import Schema, canonical

if TYPE_CHECKING:
    from crossfeed.logs.table import Table

_METADATA = b"crossfeed"
_REMAKE = "Make the table with `crossfeed ingest`, or name its columns like the channels of the schema you give."


def to_arrow(table: "Table") -> Any:
    """The Arrow form of a table, with schema, period and manifest as metadata."""
    import pyarrow as pa

    counts = [len(group) for group in table.groups]
    columns: dict[str, Any] = {}
    for key in KEYS:
        names = list(dict.fromkeys(getattr(group, key) for group in table.groups))
        code = {name: number for number, name in enumerate(names)}
        codes = np.repeat([code[getattr(group, key)] for group in table.groups], counts).astype(np.int32)
        indices = pa.Array.from_buffers(pa.int32(), len(codes), [None, pa.py_buffer(codes)])
        columns[key] = pa.DictionaryArray.from_arrays(indices, strings(names))
    columns["time"] = floats(table.time)
    for names_of, block in ((table.schema.sensor_names, table.sensors), (table.schema.command_names, table.commands)):
        for index, name in enumerate(names_of):
            columns[name] = floats(block[:, index])
    for name, extra in table.extras.items():
        columns[name] = floats(extra)
    content = {"schema": table.schema.model_dump(mode="json"), "period": table.period, "manifest": table.manifest}
    # As JSON keeps it, so that the hash is that of what will be read.
    content = json.loads(json.dumps(content, allow_nan=False))
    content[CHECKSUM] = checksum(content, _blocks(table))
    return pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(content, allow_nan=False).encode()})


def read_parts(path: Path, schema: Schema | None) -> dict[str, Any]:
    """The fields of the `Table` in a Parquet file."""
    arrow = _read_arrow(path)
    content = _metadata(arrow, path)
    if content is not None:
        stored = Schema.from_mapping(content["schema"], origin=f"The schema inside {path}")
        if schema is not None and schema.fingerprint != stored.fingerprint:
            raise TableError(
                f"{path} was made with the schema '{stored.name}', not with '{schema.name}'.",
                expected="the schema the table was made with",
                remedy="Leave the schema out, or ingest the logs again with the other schema.",
            )
        parts = columns_of(arrow, stored, path)
        parts |= {"schema": stored, "period": float(content["period"]), "manifest": content["manifest"]}
        from crossfeed.logs.table import Table

        stated = content.pop(CHECKSUM, None)
        remedy = "Copy the table again from where it was made, or ingest the logs again."
        verify(path, stated, checksum(content, _blocks(Table(**parts))), remedy, TableError)
        return parts
    return _foreign(arrow, schema or canonical(), path)


def _blocks(table: "Table") -> Iterator[bytes]:
    """What a table file holds beside its metadata: the rows by their fingerprint, and further columns by name."""
    yield table.fingerprint().encode()
    for name in sorted(table.extras):
        yield name.encode()
        yield hashed_bytes(table.extras[name])


def has_own_schema(path: Path) -> bool:
    """Whether a file says itself what its channels are, as the tables of `crossfeed ingest` do."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return _METADATA in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False  # reading the table says what is wrong with it


def _read_arrow(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    if arrow.num_rows == 0:
        raise TableError(f"{path} has no rows.", expected="at least one row")
    return arrow


def _metadata(arrow: Any, path: Path) -> dict[str, Any] | None:
    raw = (arrow.schema.metadata or {}).get(_METADATA)
    if raw is None:
        return None
    try:
        content = json.loads(raw)
    except ValueError:
        content = None
    if not isinstance(content, dict) or not {"schema", "period", "manifest"} <= content.keys():
        raise TableError(
            f"The crossfeed metadata inside {path} is damaged.",
            expected="JSON with schema, period and manifest",
            remedy=_REMAKE,
        )
    return content


def _foreign(arrow: Any, schema: Schema, path: Path) -> dict[str, Any]:
    """Understand a table without metadata: channels by name, one row order, the period from the clock."""
    names = set(arrow.column_names)
    missing = [] if "time" in names else ["time"]
    if not names & set(schema.sensor_names):
        missing.append(f"any sensor of the schema '{schema.name}' ({', '.join(schema.sensor_names)})")
    if not names & set(schema.command_names):
        missing.append(f"any command of the schema '{schema.name}' ({', '.join(schema.command_names)})")
    if missing:
        raise TableError(
            f"{path} was not made by crossfeed and lacks {'; '.join(missing)}. "
            f"Its columns: {', '.join(arrow.column_names)}.",
            expected="'time' in seconds and columns named like the channels of the schema",
            remedy=_REMAKE,
        )
    parts = columns_of(arrow, schema, path)
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


# pyarrow's own converters import pandas wherever it is installed, which takes longer than everything else here.
def floats(values: np.ndarray) -> Any:
    """Floats with null for NaN."""
    import pyarrow as pa

    present = np.packbits(~np.isnan(values), bitorder="little")
    buffers = [pa.py_buffer(present), pa.py_buffer(np.ascontiguousarray(values, dtype=np.float64))]
    return pa.Array.from_buffers(pa.float64(), len(values), buffers)


def strings(texts: list[str]) -> Any:
    """Texts, none of them null."""
    import pyarrow as pa

    coded = [text.encode() for text in texts]
    ends = np.cumsum([0, *(len(text) for text in coded)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(coded)))


def column(values: Sequence[float | str | None]) -> Any:
    """Texts, whole numbers or numbers, null where None; a column of nothing else has no type."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values))
    present = pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
    if kinds == {str}:
        _, ends, texts = strings([str(value or "") for value in values]).buffers()
        return pa.Array.from_buffers(pa.string(), len(values), [present, ends, texts])
    dtype, arrow_type = (np.int64, pa.int64()) if kinds == {int} else (np.float64, pa.float64())
    numbers = np.array([0 if value is None else value for value in values], dtype=dtype)
    return pa.Array.from_buffers(arrow_type, len(values), [present, pa.py_buffer(numbers)])


def columns_of(arrow: Any, schema: Schema, path: Path) -> dict[str, Any]:
    """Groups, clock, channels by name and whatever else is a number."""
    rows = arrow.num_rows

    def block(names: tuple[str, ...]) -> np.ndarray:
        values = np.full((rows, len(names)), np.nan)
        for index, name in enumerate(names):
            if name in arrow.column_names:
                values[:, index] = _numbers(arrow, name, path)
        return values

    channels = {*KEYS, "time", *schema.sensor_names, *schema.command_names}
    others = [name for name in arrow.column_names if name not in channels and _numeric(arrow, name)]
    return {
        "groups": groups_of(arrow, path.stem),
        "time": _numbers(arrow, "time", path),
        "sensors": block(schema.sensor_names),
        "commands": block(schema.command_names),
        "extras": {name: _numbers(arrow, name, path) for name in others},
    }


def _numeric(arrow: Any, name: str) -> bool:
    import pyarrow as pa

    arrow_type = arrow.schema.field(name).type
    return bool(pa.types.is_floating(arrow_type) or pa.types.is_integer(arrow_type) or pa.types.is_boolean(arrow_type))


def _numbers(arrow: Any, name: str, path: Path) -> np.ndarray:
    """A column as floats with NaN for null; a time stamp becomes seconds."""
    import pyarrow as pa

    column = arrow.column(name).combine_chunks()
    if name == "time" and pa.types.is_timestamp(column.type):
        stamps = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
        return np.where(_known(stamps), _values(stamps, np.int64) / 1e9, np.nan)
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if not _numeric(arrow, name):
        raise TableError(
            f"Column '{name}' of {path} holds {column.type}.",
            expected="numbers (null where absent)",
            remedy="Convert the column to numbers, or ingest the logs with a mapping.",
        )
    numbers = column if pa.types.is_float64(column.type) else column.cast(pa.float64())
    return np.where(_known(numbers), _values(numbers, np.float64), np.nan)


def _values(array: Any, dtype: type[np.generic]) -> np.ndarray:
    """Numbers as they lie in memory, anything where null: `to_numpy` would import pandas where it is installed."""
    return np.frombuffer(array.buffers()[-1], dtype)[array.offset : array.offset + len(array)]


def _known(array: Any) -> np.ndarray:
    """Where there is no null, as the bits lie in memory: pyarrow's functions are imported only for foreign tables."""
    bits = array.buffers()[0]
    if bits is None:
        return np.ones(len(array), dtype=bool)
    flags = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    return flags[array.offset : array.offset + len(array)].astype(bool)


def groups_of(arrow: Any, label: str) -> tuple[Group, ...]:
    """Contiguous rows with the same machine, run and session; a missing key column counts as one constant."""
    import pyarrow as pa

    defaults = {"machine": label, "session": "all", "run": "all", "program": ""}
    rows = arrow.num_rows
    codes, names = {}, {}
    for key in KEYS:
        if key not in arrow.column_names:
            codes[key], names[key] = np.zeros(rows, dtype=np.int64), [defaults[key]]
            continue
        column = arrow.column(key)
        if column.type == pa.dictionary(pa.int32(), pa.string()) and not column.null_count:
            encoded = column.combine_chunks()
        else:
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            encoded = column.cast(pa.string()).combine_chunks().dictionary_encode(null_encoding="encode")
        texts = [text or "" for text in encoded.dictionary.to_pylist()]
        names[key] = list(dict.fromkeys(texts))
        code = {text: number for number, text in enumerate(names[key])}
        codes[key] = np.array([code[text] for text in texts])[_values(encoded.indices, np.int32)]
    change = np.zeros(rows, dtype=bool)
    change[0] = True
    for key in ("machine", "session", "run"):
        change[1:] |= codes[key][1:] != codes[key][:-1]
    starts = np.flatnonzero(change)
    return tuple(
        Group(start=int(start), stop=int(stop), **{key: names[key][codes[key][start]] for key in KEYS})
        for start, stop in zip(starts, [*starts[1:], rows], strict=True)
    )
