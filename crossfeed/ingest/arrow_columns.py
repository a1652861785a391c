"""Arrow columns to numpy and back: floats with NaN for null, and the groups that rows belong to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.errors import TableError
from crossfeed.ingest.table import KEYS, Group
from crossfeed.schema import Schema


# pyarrow's own converters import pandas wherever it is installed, which takes longer than everything else here.
def floats(values: np.ndarray) -> Any:
    """Floats with null for NaN."""
    import pyarrow as pa

    known = np.packbits(~np.isnan(values), bitorder="little")
    buffers = [pa.py_buffer(known), pa.py_buffer(np.ascontiguousarray(values, dtype=np.float64))]
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
    known = pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
    if kinds == {str}:
        _, ends, texts = strings([str(value or "") for value in values]).buffers()
        return pa.Array.from_buffers(pa.string(), len(values), [known, ends, texts])
    dtype, arrow_type = (np.int64, pa.int64()) if kinds == {int} else (np.float64, pa.float64())
    numbers = np.array([0 if value is None else value for value in values], dtype=dtype)
    return pa.Array.from_buffers(arrow_type, len(values), [known, pa.py_buffer(numbers)])


def columns_of(arrow: Any, schema: Schema, path: Path) -> dict[str, Any]:
    """Groups, clock, channels by name and whatever else is a number."""
    rows = arrow.num_rows

    def block(names: tuple[str, ...]) -> np.ndarray:
        values = np.full((rows, len(names)), np.nan)
        for index, name in enumerate(names):
            if name in arrow.column_names:
                values[:, index] = _numbers(arrow, name, path)
        return values

    known = {*KEYS, "time", *schema.sensor_names, *schema.command_names}
    others = [name for name in arrow.column_names if name not in known and _numeric(arrow, name)]
    return {
        "groups": _groups(arrow, path),
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


def _groups(arrow: Any, path: Path) -> tuple[Group, ...]:
    """Contiguous rows with the same machine, run and session; a missing key column counts as one constant."""
    import pyarrow as pa

    defaults = {"machine": path.stem, "session": "all", "run": "all", "program": ""}
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
