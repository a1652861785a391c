"""Sparkplug B payloads: the small part of protobuf they need, written out by hand.

Fields of Payload: timestamp 1, metrics 2, seq 3. Fields of Metric: name 1, alias 2, timestamp 3, datatype 4,
is_historical 5, is_null 7, then the value in 10 (int), 11 (long), 12 (float), 13 (double), 14 (boolean), 15 (string).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from crossfeed.errors import LogError

VARINT, FIXED64, BYTES, _FIXED32 = 0, 1, 2, 5
_INT8, _INT16, _INT32, _INT64 = 1, 2, 3, 4
_SIGNED = {_INT8: 8, _INT16: 16, _INT32: 32, _INT64: 64}


@dataclass(frozen=True, slots=True)
class Metric:
    """One value; a birth names its alias, later messages may use the alias alone. `time` is in milliseconds."""

    name: str | None
    value: float | str | bool | None
    time: int | None = None
    alias: int | None = None
    historical: bool = False


@dataclass(frozen=True, slots=True)
class Payload:
    """A message: its own time, the metrics in it, and its number from 0 to 255."""

    time: int | None
    metrics: tuple[Metric, ...]
    sequence: int | None


def decode(content: bytes) -> Payload:
    """Read a payload, or say what is wrong with it."""
    time = sequence = None
    metrics: list[Metric] = []
    try:
        for number, value in _fields(content):
            if number == 1 and isinstance(value, int):
                time = value
            elif number == 2 and isinstance(value, bytes):
                metrics.append(_metric(value))
            elif number == 3 and isinstance(value, int):
                sequence = value
    except (IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
        raise LogError(f"A Sparkplug message cannot be read: {error}", expected="a Sparkplug B payload") from error
    return Payload(time, tuple(metrics), sequence)


def _metric(content: bytes) -> Metric:
    fields = dict(_fields(content))
    datatype = fields.get(4, 0)
    assert isinstance(datatype, int)
    value: float | str | bool | None = None
    if not fields.get(7):
        if isinstance(fields.get(15), bytes):
            value = bytes(fields[15]).decode()
        elif isinstance(fields.get(13), bytes):
            value = struct.unpack("<d", fields[13])[0]  # type: ignore[arg-type]
        elif isinstance(fields.get(12), bytes):
            value = struct.unpack("<f", fields[12])[0]  # type: ignore[arg-type]
        elif isinstance(fields.get(14), int):
            value = bool(fields[14])
        elif isinstance(whole := fields.get(10, fields.get(11)), int):
            bits = _SIGNED.get(datatype)
            value = float(whole - (1 << bits) if bits and whole >= 1 << (bits - 1) else whole)
    name = fields.get(1)
    time, alias = fields.get(3), fields.get(2)
    return Metric(
        name.decode() if isinstance(name, bytes) else None,
        value,
        time if isinstance(time, int) else None,
        alias if isinstance(alias, int) else None,
        bool(fields.get(5, 0)),
    )


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and raw value of every field; fixed-width values stay bytes."""
    offset = 0
    while offset < len(content):
        key, offset = _read_varint(content, offset)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, offset = _read_varint(content, offset)
            yield number, value
            continue
        if wire == BYTES:
            size, offset = _read_varint(content, offset)
        elif wire in (FIXED64, _FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if offset + size > len(content):
            raise ValueError("it ends too early")
        yield number, content[offset : offset + size]
        offset += size


def _read_varint(content: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = content[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, offset
    raise ValueError("a number that never ends")
