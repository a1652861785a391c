"""Sparkplug B payloads, byte for byte as protobuf has them: what other people's publishers send."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import LogError
from crossfeed.live.mqtt import Metric, Payload, decode
from crossfeed.sim.servers.mqtt_publisher import encode

_VALUES = st.one_of(st.none(), st.floats(allow_nan=False), st.text(max_size=20))
_METRICS = st.builds(
    Metric,
    name=st.one_of(st.none(), st.text(max_size=30)),
    value=_VALUES,
    time=st.one_of(st.none(), st.integers(0, 2**63)),
    alias=st.one_of(st.none(), st.integers(0, 2**63)),
    historical=st.booleans(),
)


@given(
    metrics=st.lists(_METRICS, max_size=5),
    time=st.one_of(st.none(), st.integers(0, 2**63)),
    sequence=st.integers(0, 255),
)
def test_a_payload_comes_back_as_it_was_written(metrics: list[Metric], time: int | None, sequence: int) -> None:
    found = decode(encode(Payload(time, tuple(metrics), sequence)))
    assert (found.time, found.sequence) == (time, sequence)
    for back, metric in zip(found.metrics, metrics, strict=True):
        assert (back.name, back.value, back.time, back.alias, back.historical) == (
            metric.name, metric.value, metric.time, metric.alias, metric.historical,
        )  # fmt: skip


@given(content=st.binary(max_size=60))
def test_no_bytes_break_the_decoder(content: bytes) -> None:
    with suppress(LogError):
        assert all(metric.time is None or metric.time >= 0 for metric in decode(content).metrics)


def test_a_payload_is_written_as_protobuf_has_it() -> None:
    """A reader and a writer with the same error understand each other, and nobody else."""
    metric = Metric("P", 2.5, time=300, alias=7, historical=True)
    value = b"\x69" + struct.pack("<d", 2.5)
    packed = b"\x0a\x01P" + b"\x10\x07" + b"\x18\xac\x02" + b"\x20\x0a" + b"\x28\x01" + value
    assert encode(Payload(1, (metric,), 200)) == b"\x08\x01" + b"\x12" + bytes([len(packed)]) + packed + b"\x18\xc8\x01"
    gone, said = Metric(None, None), Metric(None, "on")
    assert encode(Payload(None, (gone, said), None)) == b"\x12\x04\x20\x0a\x38\x01" + b"\x12\x06\x20\x0c\x7a\x02on"


def told(value: bytes, datatype: int) -> object:
    """The value of a metric whose bytes are given."""
    packed = bytes([0x20, datatype]) + value
    (metric,) = decode(b"\x12" + bytes([len(packed)]) + packed).metrics
    return metric.value


@pytest.mark.parametrize(
    ("value", "datatype", "found"),
    [
        (b"\x50\x7f", 1, 127.0),  # Int8
        (b"\x50\x80\x01", 1, -128.0),
        (b"\x50\xff\x01", 1, -1.0),
        (b"\x50\xff\xff\x01", 2, 32767.0),  # Int16
        (b"\x50\x80\x80\x02", 2, -32768.0),
        (b"\x50\xff\xff\xff\xff\x07", 3, 2147483647.0),  # Int32
        (b"\x50\x80\x80\x80\x80\x08", 3, -2147483648.0),
        (b"\x58\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 4, -1.0),  # Int64, in the field of longs
        (b"\x50\xff\x01", 5, 255.0),  # UInt8
        (b"\x58\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 8, float(2**64 - 1)),  # UInt64
        (b"\x65" + struct.pack("<f", 0.5), 9, 0.5),  # Float
        (b"\x69" + struct.pack("<d", -0.1), 10, -0.1),  # Double
        (b"\x70\x01", 11, True),  # Boolean
        (b"\x70\x00", 11, False),
        (b"\x7a\x02on", 12, "on"),  # String
        (b"\x38\x01\x50\x05", 3, None),  # is_null
        (b"\x38\x00\x50\x05", 3, 5.0),
    ],
)
def test_numbers_of_every_kind_are_what_they_were(value: bytes, datatype: int, found: object) -> None:
    assert told(value, datatype) == found
    assert type(told(value, datatype)) is type(found)


def test_what_is_not_known_is_passed_over_and_what_is_not_named_is_not_made_up() -> None:
    payload = decode(b"\x22\x03abc" + b"\x29" + bytes(8) + b"\x35" + bytes(4) + b"\x12\x02\x50\x05" + b"\x12\x00")
    assert (payload.time, payload.sequence) == (None, None)
    assert payload.metrics == (Metric(None, 5.0, None, None, False), Metric(None, None, None, None, False))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x12\x05\x50\x05", "it ends too early"),
        (b"\x09" + bytes(7), "it ends too early"),
        (b"\x0b", "wire type 3"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "a number that never ends"),
        (b"\x08", "cannot be read"),
    ],
)
def test_a_broken_message_says_what_is_wrong(content: bytes, words: str) -> None:
    with pytest.raises(LogError, match=words):
        decode(content)
