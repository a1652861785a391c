"""MQTT: JSON by a mapping, or Sparkplug B. It subscribes and never publishes.

A Sparkplug listener that comes late waits for the next birth before it can name what it hears: asking for one would be
a command to the machine's gateway."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import time as now
from typing import Any
from urllib.parse import urlsplit

from crossfeed.errors import LogError, need
from crossfeed.live.mapping import LiveMapping, MappingProposal, SourceNode, propose_mapping
from crossfeed.live.open_source import Credentials
from crossfeed.live.source import ALIVE, Arrival, ConnectedSource, Notice, Sample, sample_of, silence
from crossfeed.logs.declaration import MICROSECONDS, LogFormat

# Sparkplug B payloads: the small part of protobuf they need, written out by hand.


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


_TIMES = ("timestamp", "time", "ts", "t")
_DISCOVERY_S = 5.0
_SPARKPLUG = "spBv1.0"


class MqttSource(ConnectedSource):
    """Topics under a filter; in JSON a value is named TOPIC#KEY, in Sparkplug by its metric."""

    back = "the broker is back"

    def __init__(self, address: str, mapping: Path | None = None, credentials: Credentials | None = None) -> None:
        parts = urlsplit(address)
        self.address, self.title = address, f"the MQTT broker {parts.hostname}"
        self._host, self._port = parts.hostname or "localhost", parts.port or 1883
        self._filter = parts.path.lstrip("/") or "#"
        if "#" not in self._filter and "+" not in self._filter:
            self._filter = f"{self._filter.rstrip('/')}/#"
        self._credentials = credentials
        self._mapping = None if mapping is None else LiveMapping.from_yaml(mapping)
        self._names = self._mapping.names() if self._mapping is not None else {}
        self._aliases: dict[str, dict[int, str]] = {}
        self._sequence: dict[str, int] = {}
        self._missing: dict[str, int] = {}  # messages by node, as their numbers say
        self._seen: dict[str, tuple[int, Any]] = {}
        self._dead_since: int | None = None

    def _client(self) -> Any:
        aiomqtt = need("aiomqtt", "MQTT", "live")
        login = {} if self._credentials is None else {
            "username": self._credentials.user, "password": self._credentials.password
        }  # fmt: skip
        return aiomqtt.Client(self._host, self._port, timeout=10.0, **login)

    async def open(self) -> LogFormat:
        """Without a mapping, listen for a while and propose one."""
        if self._mapping is None:
            self._mapping = (await self.propose()).mapping
            self._names = self._mapping.names()
        return self._mapping.log_format(self.title)

    async def propose(self, seconds: float = _DISCOVERY_S) -> MappingProposal:
        """What is published within a few seconds, and what it may mean."""
        nodes: dict[str, SourceNode] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for topic, content in self._messages():
                    for native, value, _, _ in self._values(topic, content):
                        path = tuple(native.replace("#", "/").split("/"))
                        nodes[native] = SourceNode(native, path, None, isinstance(value, int | float))
        if not nodes:
            raise LogError(
                f"Nothing was told under '{self._filter}' within {seconds:g} s.",
                expected="JSON or Sparkplug B messages",
                remedy="Check the topic in the address: mqtt://HOST:1883/TOPIC.",
            )
        machine = next(iter(nodes)).split("/")[0].split("#")[0] or "machine"
        return propose_mapping(machine, nodes.values())

    async def _messages(self) -> AsyncIterator[tuple[str, bytes]]:
        aiomqtt = need("aiomqtt", "MQTT", "live")
        try:
            async with self._client() as client:
                await client.subscribe(self._filter, qos=1)
                async for message in client.messages:
                    yield str(message.topic), bytes(message.payload)
        except (aiomqtt.MqttError, OSError) as error:
            raise LogError(
                f"There is no MQTT broker at {self._host}:{self._port}, or it refuses us: {error}.",
                expected="an address such as mqtt://192.168.0.10:1883/mill_7",
            ) from error

    def losses(self) -> tuple[type[Exception], ...]:
        return (LogError,)

    async def connection(self) -> AsyncIterator[Arrival]:
        async for topic, content in self._messages():
            for arrival in self._arrivals_of(topic, content):
                yield arrival

    def _arrivals_of(self, topic: str, content: bytes) -> Iterator[Arrival]:
        message_type = _message_type(topic)
        if message_type in ("NDEATH", "DDEATH"):
            if self._dead_since is None:
                self._dead_since = self.newest
                yield Notice("degraded", f"{topic.rpartition('/')[2]} says that it is dead")
            return
        try:
            values = list(self._values(topic, content))
        except LogError as error:
            yield Notice("degraded", error.found)
            return
        missing = self._missing.pop(_node(topic), 0)
        if missing and self.newest:
            self.lost_at = self.lost_at or self.newest
            yield Notice("degraded", f"{missing} messages of {_node(topic)} are missing")
        for native, value, stamp, historical in values:
            name = self._names.get(native)
            if name is None:
                continue
            if self._seen.get(native) == (stamp, value):
                yield Notice("doubled", f"{native} was told twice")
                continue
            self._seen[native] = (stamp, value)
            if not historical:
                yield from self._end_of_gap(stamp)
                self.newest = max(self.newest, stamp)
            yield sample_of(name, value, stamp)
        if values:
            yield Sample(ALIVE, 1.0, max(stamp for _, _, stamp, _ in values))

    def _end_of_gap(self, stamp: int) -> Iterator[Arrival]:
        since = [begin for begin in (self._dead_since, self.lost_at) if begin]
        if since and stamp > min(since):
            yield silence(min(since), stamp)
            self._dead_since, self.lost_at = None, 0

    def _values(self, topic: str, content: bytes) -> Iterator[tuple[str, Any, int, bool]]:
        """Native name, value, stamp and whether it is history, of everything in a message."""
        if topic.startswith(f"{_SPARKPLUG}/"):
            yield from self._sparkplug(topic, content)
        else:
            yield from _json(topic, content)

    def _sparkplug(self, topic: str, content: bytes) -> Iterator[tuple[str, Any, int, bool]]:
        message_type = _message_type(topic)
        if message_type not in ("NBIRTH", "DBIRTH", "NDATA", "DDATA"):
            return
        payload = decode(content)
        node, owner = _node(topic), topic.replace(f"/{message_type}/", "/")
        if message_type in ("NBIRTH", "DBIRTH"):
            self._aliases[owner] = {
                birth.alias: birth.name for birth in payload.metrics if birth.alias is not None and birth.name
            }
        self._count_missing(node, message_type, payload.sequence)
        names = self._aliases.get(owner, {})
        for metric in payload.metrics:
            name = metric.name or (names.get(metric.alias) if metric.alias is not None else None)
            stamp = metric.time or payload.time
            if name is not None and stamp is not None and not name.startswith(("bdSeq", "Node Control/")):
                yield name, metric.value, stamp * 1000, metric.historical

    def _count_missing(self, node: str, message_type: str, sequence: int | None) -> None:
        """Messages of a node are numbered from 0 to 255; those that do not follow each other leave a gap."""
        if sequence is None:
            return
        if node in self._sequence and message_type != "NBIRTH":
            self._missing[node] = (sequence - self._sequence[node] - 1) % 256
        self._sequence[node] = sequence


def _node(topic: str) -> str:
    parts = topic.split("/")
    return "/".join([*parts[1:2], *parts[3:4]])


def _message_type(topic: str) -> str:
    parts = topic.split("/")
    return parts[2] if len(parts) > 3 and parts[0] == _SPARKPLUG else ""


def _json(topic: str, content: bytes) -> Iterator[tuple[str, Any, int, bool]]:
    """Every value of a JSON message, nested keys joined with dots; a bare value is called by its topic."""
    try:
        message = json.loads(content)
    except ValueError as error:
        raise LogError(f"A message on {topic} is no JSON.", expected="an object or a number") from error
    if not isinstance(message, dict):
        yield topic, message, round(now() * MICROSECONDS), False
        return
    clock = next((name for name in _TIMES if name in message), None)
    stamp = _stamp(message[clock]) if clock else round(now() * MICROSECONDS)
    for name, value in _flat(message, ""):
        if name != clock:
            yield f"{topic}#{name}", value, stamp, False


def _flat(content: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _stamp(moment: Any) -> int:
    """A time as ISO text, or as a number of seconds, milliseconds or microseconds, told apart by its size."""
    try:
        if isinstance(moment, str):
            return round(datetime.fromisoformat(moment).timestamp() * MICROSECONDS)
        factor = 1 if moment > 1e14 else 1000 if moment > 1e11 else MICROSECONDS
        return round(float(moment) * factor)
    except (TypeError, ValueError) as error:
        raise LogError(f"'{moment}' is no time.", expected="ISO 8601, or seconds or milliseconds since 1970") from error
