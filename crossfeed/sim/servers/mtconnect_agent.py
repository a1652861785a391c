"""An MTConnect agent: /probe, /current, /sample with multipart streams, over real HTTP.

It keeps a buffer of the newest observations like any agent; older ones are answered with OUT_OF_RANGE.
"""

import asyncio
import random
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape, quoteattr

from crossfeed.logs.declaration import MICROSECONDS
from crossfeed.schema import canonical, conversion
from crossfeed.sim.servers.serve import SimulatedFeed, SimulatedServer, Step

_BOUNDARY = "crossfeed"
# Ending of a channel -> type of the data item and units of the standard.
_TYPES = {
    "current": ("AMPERAGE", "AMPERE"), "torque": ("TORQUE", "NEWTON_METER"), "power": ("WATTAGE", "WATT"),
    "motor_temp": ("TEMPERATURE", "CELSIUS"), "temp": ("TEMPERATURE", "CELSIUS"), "dc_voltage": ("VOLTAGE_DC", "VOLT"),
    # No type of the standard: a mapping has to name it, as it has to with many real agents.
    "mod_depth": ("MODULATION_DEPTH", "PERCENT"),
}  # fmt: skip
_NATIVE = {"WATT": "W", "AMPERE": "A", "NEWTON_METER": "N m", "CELSIUS": "degC", "VOLT": "V",
           "REVOLUTION/MINUTE": "rpm", "MILLIMETER/SECOND": "mm/s", "PERCENT": "%"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Item:
    """A data item with the component that owns it."""

    channel: str
    component: str
    owner: str
    type: str
    units: str
    subtype: str = ""
    category: str = "SAMPLE"

    @property
    def identity(self) -> str:
        return f"{self.owner}_{self.channel}"

    @property
    def element(self) -> str:
        """What the streams call it."""
        return self.type.title().replace("_", "")


@dataclass(frozen=True, slots=True)
class _Observation:
    sequence: int
    stamp: int
    item: _Item
    value: str


class MtconnectAgent(SimulatedServer):
    """One device; values are written in the units that the standard asks for."""

    def __init__(self, feed: SimulatedFeed, port: int, buffer: int = 16384) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self._feed, self._port, self._size = feed, port, buffer
        self._items = list(_items(feed))
        self._by_channel = {item.channel: item for item in self._items}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self.restart()

    def restart(self) -> None:
        """A new instance: sequences begin again and the buffer is empty."""
        self.instance = random.SystemRandom().randrange(1, 2**31)
        self._next = 1
        self._buffer: deque[_Observation] = deque(maxlen=self._size)
        self._current: dict[str, _Observation] = {}
        self._news = asyncio.Event()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", self._port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for connection in list(self._connections):
                connection.close()
            self._server = None

    async def tell(self, step: Step, stamp: int) -> None:
        """Values that changed become observations; the buffer never holds a repeated one."""
        values: dict[str, str] = {"program": step.program or "UNAVAILABLE", "line": str(step.line)}
        values |= {"execution": "ACTIVE" if step.program else "READY", "feed_override": f"{step.feed_override:g}"}
        for channel, value in step.values.items():
            item = self._by_channel.get(channel)
            if item is not None:
                factor = conversion(canonical().channel(channel).unit, _NATIVE[item.units])
                values[channel] = (
                    "UNAVAILABLE" if channel in step.missing else repr(value * factor.scale + factor.offset)
                )
        for channel, text in values.items():
            item = self._by_channel.get(channel)
            before = self._current.get(channel)
            if item is not None and (before is None or before.value != text):
                observation = _Observation(self._next, stamp, item, text)
                self._next += 1
                self._buffer.append(observation)
                self._current[channel] = observation
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        # Cancelled at the end of the server: asyncio would print a traceback for every open stream.
        closed = (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError)
        with suppress(*closed):
            request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split(" ")
            url = urlsplit(request[1])
            asked = {name: values[0] for name, values in parse_qs(url.query).items()}
            what = url.path.strip("/").rpartition("/")[2]
            if what == "sample" and "interval" in asked:
                await self._stream(writer, asked)
            else:
                pages = {"probe": self._probe, "": self._probe, "current": self._current_page}
                page = pages[what]() if what in pages else self._sample(asked) if what == "sample" else None
                await _send(writer, page or self._error("UNSUPPORTED", f"there is no {what}"))
        self._connections.discard(writer)
        writer.close()

    def _sample(self, asked: dict[str, str]) -> str:
        begin = int(asked.get("from", self._first))
        return self._out_of_range(begin) or self._streams(self._held(begin, asked))

    def _out_of_range(self, begin: int) -> str:
        """The error page for a sequence that the buffer does not hold; else nothing."""
        if self._first <= begin <= self._next:
            return ""
        return self._error("OUT_OF_RANGE", f"'from' must be between {self._first} and {self._next}")

    def _held(self, begin: int, asked: dict[str, str]) -> list[_Observation]:
        return [observation for observation in self._buffer if observation.sequence >= begin][
            : int(asked.get("count", "100"))
        ]

    async def _stream(self, writer: asyncio.StreamWriter, asked: dict[str, str]) -> None:
        begin = int(asked.get("from", self._first))
        interval, heartbeat = float(asked["interval"]) / 1000.0, float(asked.get("heartbeat", "10000")) / 1000.0
        head = f"HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace;boundary={_BOUNDARY}\r\n"
        writer.write((head + "Transfer-Encoding: chunked\r\n\r\n").encode())
        while not writer.is_closing():
            if refusal := self._out_of_range(begin):
                _part(writer, refusal)
                break
            observations = self._held(begin, asked)
            if not observations:
                with suppress(TimeoutError):
                    async with asyncio.timeout(heartbeat):
                        await self._news.wait()
                observations = self._held(begin, asked)
            _part(writer, self._streams(observations))
            begin = observations[-1].sequence + 1 if observations else begin
            await writer.drain()
            await asyncio.sleep(interval)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    @property
    def _first(self) -> int:
        return self._buffer[0].sequence if self._buffer else self._next

    def _document(self, kind: str, content: str, following: int | None = None) -> str:
        now = _text(round(datetime.now(UTC).timestamp() * MICROSECONDS))
        header = _xml(
            "Header", creationTime=now, instanceId=self.instance, sender="crossfeed", version="1.5",
            bufferSize=self._size, firstSequence=self._first, lastSequence=self._next - 1,
            nextSequence=following or self._next,
        )  # fmt: skip
        body = _xml(f"MTConnect{kind}", header + content, xmlns=f"urn:mtconnect.org:MTConnect{kind}:1.5")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'

    def _current_page(self) -> str:
        return self._streams(self._current.values(), self._next)

    def _streams(self, observations: Iterable[_Observation], following: int | None = None) -> str:
        observations = list(observations)
        following = following or (observations[-1].sequence + 1 if observations else self._next)
        parts: dict[tuple[str, str], dict[str, str]] = {}
        for seen in observations:
            item = seen.item
            groups = parts.setdefault((item.component, item.owner), {})
            group = "Samples" if item.category == "SAMPLE" else "Events"
            groups[group] = groups.get(group, "") + _xml(
                item.element, escape(seen.value), dataItemId=item.identity, name=item.channel,
                timestamp=_text(seen.stamp), sequence=seen.sequence, subType=item.subtype,
            )  # fmt: skip
        body = ""
        for (component, owner), groups in parts.items():
            content = "".join(_xml(group, lines) for group, lines in groups.items())
            body += _xml("ComponentStream", content, component=component, name=owner, componentId=owner)
        device = _xml("DeviceStream", body, name=self._feed.name, uuid=self._feed.name)
        return self._document("Streams", _xml("Streams", device), following)

    def _probe(self) -> str:
        owners: dict[tuple[str, str], str] = {}
        for item in self._items:
            owner = (item.component, item.owner)
            owners[owner] = owners.get(owner, "") + _xml(
                "DataItem", category=item.category, id=item.identity, name=item.channel, type=item.type,
                subType=item.subtype, units=item.units,
            )  # fmt: skip
        components = "".join(
            _xml(component, _xml("DataItems", items), id=owner, name=owner)
            for (component, owner), items in owners.items()
        )
        name = self._feed.name
        device = _xml("Device", _xml("Components", components), id=name, name=name, uuid=name)
        return self._document("Devices", _xml("Devices", device))

    def _error(self, code: str, text: str) -> str:
        return self._document("Error", _xml("Errors", _xml("Error", escape(text), errorCode=code)))


def _items(feed: SimulatedFeed) -> Iterable[_Item]:
    for channel in feed.channels:
        drive, _, ending = channel.partition("_")
        if channel == "spindle_speed":
            yield _Item(channel, "Rotary", "C", "ROTARY_VELOCITY", "REVOLUTION/MINUTE", "COMMANDED")
        elif drive == "feed":
            yield _Item(channel, "Linear", ending.upper(), "AXIS_FEEDRATE", "MILLIMETER/SECOND", "COMMANDED")
        elif ending == "motor_temp":
            yield _Item(channel, "Motor", f"{drive}_motor", *_TYPES[ending])
        elif ending in _TYPES:
            component = "Rotary" if drive == "spindle" else "Linear" if drive in "xyz" else "Environmental"
            owner = "C" if drive == "spindle" else drive.upper() if drive in "xyz" else drive
            yield _Item(channel, component, owner, *_TYPES[ending])
    for name in ("execution", "program", "line"):
        yield _Item(name, "Path", "path", name.upper(), "", category="EVENT")
    yield _Item("feed_override", "Path", "path", "PATH_FEEDRATE_OVERRIDE", "PERCENT", "PROGRAMMED", category="EVENT")


def _xml(element: str, content: str = "", /, **attributes: Any) -> str:
    """An XML element; empty attributes are left out."""
    given = "".join(f" {key}={quoteattr(str(value))}" for key, value in attributes.items() if value != "")
    return f"<{element}{given}>{content}</{element}>"


def _text(stamp: int) -> str:
    return datetime.fromtimestamp(stamp / MICROSECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def _send(writer: asyncio.StreamWriter, page: str) -> None:
    body = page.encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


def _part(writer: asyncio.StreamWriter, page: str) -> None:
    body = page.encode()
    part = f"--{_BOUNDARY}\r\nContent-type: text/xml\r\nContent-length: {len(body)}\r\n\r\n".encode() + body + b"\r\n"
    writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
