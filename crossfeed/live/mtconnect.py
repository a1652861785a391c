"""MTConnect agents: /probe says what there is, /current where it stands, /sample streams what changes."""

import asyncio
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx

from crossfeed.errors import ConfigError, LogError
from crossfeed.files import temporary_file
from crossfeed.live.source import (
    ALIVE,
    LINE,
    OVERRIDES,
    Arrival,
    ConnectedSource,
    Mark,
    Notice,
    Sample,
    live_segmentation,
    sample_of,
)
from crossfeed.logs.declaration import MICROSECONDS, PROGRAM, LogFormat
from crossfeed.logs.mtconnect import LOG_FORMAT
from crossfeed.logs.mtconnect_channels import DeviceMapping, propose
from crossfeed.logs.mtconnect_devices import Item, read_devices, tag
from crossfeed.schema import canonical

_INTERVAL_MS, _HEARTBEAT_MS, _COUNT = 100, 2000, 10000
_UNAVAILABLE = "UNAVAILABLE"
_LONGEST = 64 << 20  # bytes of a document
_TOO_LONG = f"A document of the agent has more than {_LONGEST >> 20} MB."
_PART_LENGTH = re.compile(rb"^content-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE | re.MULTILINE)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class StreamsPage:
    """One streams document: who wrote it, what follows, and its observations in order of their sequence."""

    instance: int
    following: int
    created: int
    observations: list[tuple[int, int, str, str]]  # sequence, stamp, item, value


class OutOfRangeError(Exception):
    """The agent no longer holds the sequence that was asked for."""


class MtconnectSource(ConnectedSource):
    """One device of an agent; a mapping of the kind `crossfeed ingest mtconnect` takes renames or drops items."""

    back = "the agent is back"

    def __init__(self, address: str, mapping: Path | None = None) -> None:
        self.address, self.title = address.rstrip("/"), f"the MTConnect agent {address}"
        self._mapping = DeviceMapping.from_yaml(mapping) if mapping is not None else None
        self._names: dict[str, str] = {}
        self._instance: int | None = None
        self._next: int | None = None

    async def open(self) -> LogFormat:
        """Ask the agent what there is and choose channels for it."""
        device, items = await self._device()
        proposal = propose(items)
        where = f"{self.address}/probe"
        if self._mapping is not None:
            machine, (schema, columns) = self._mapping.machine, self._mapping.channels(items, proposal, where)
        else:
            machine, columns, schema = device.lower(), proposal.columns(where), proposal.schema(device)
            canonical_schema = canonical()
            named = {column.channel for column in columns}
            if {*canonical_schema.command_names} <= named and named & {*canonical_schema.sensor_names}:
                schema = canonical_schema
                columns = tuple(
                    column for column in columns if column.channel in {c.name for c in canonical_schema.channels}
                )
        by_name = {item.name: item for item in items.values()}
        for column in columns:
            if column.constant is None:
                self._names[_key(by_name[column.native])] = column.channel
        for item in items.values():
            if item.type in ("LINE", "LINE_NUMBER"):
                self._names.setdefault(_key(item), LINE)
        for channel in proposal.channels:
            if channel.channel in OVERRIDES:
                self._names.setdefault(_key(by_name[channel.native]), OVERRIDES[channel.channel])
        if proposal.program is not None:
            self._names[_key(by_name[proposal.program])] = PROGRAM
        return replace(
            LOG_FORMAT,
            name="live",
            title=self.title,
            machine=machine,
            schema=schema,
            columns=columns,
            period=self._mapping.period if self._mapping and self._mapping.period else LOG_FORMAT.period,
            segmentation=live_segmentation(
                replace(LOG_FORMAT.segmentation, keep={}, drop_programs=(), boundaries=(), min_s=0.0)
            ),
            prepare=None,
        )

    async def read_model(self, read: Callable[[Path], Found]) -> Found:
        """What a reader of files finds in the device model that the agent gives."""
        with temporary_file(await self._page("/probe"), "Devices.xml") as file:
            return read(file)

    async def _device(self) -> tuple[str, Mapping[str, Item]]:
        """The device that is meant, and its items."""
        devices = await self.read_model(read_devices)
        wanted = self._mapping.device if self._mapping is not None else None
        if wanted is None and len(devices) == 1:
            return next(iter(devices.items()))
        match = next((name for name in devices if wanted is not None and name.lower() == wanted.lower()), None)
        if match is None:
            raise ConfigError(
                f"The agent knows {', '.join(devices)}" + (f", not {wanted}." if wanted else "."),
                expected="one device, named in a mapping",
                remedy=f"`crossfeed live discover {self.address}` writes one.",
            )
        return match, devices[match]

    async def _page(self, path: str) -> bytes:
        page = b""
        try:
            async with asyncio.timeout(30.0), _asked(self.address + path) as answer:
                async for piece in answer.aiter_bytes():
                    page += piece
                    if len(page) > _LONGEST:
                        raise LogError(_TOO_LONG, expected="an MTConnect document")
        except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise LogError(
                f"There is no MTConnect agent at {self.address}: {error or 'no answer'}.",
                expected="an address such as http://192.168.0.10:5000 that answers /probe",
            ) from error
        return page

    def resume(self, position: Mapping[str, Any]) -> None:
        self._instance, self._next = int(position["instance"]), int(position["next"])
        self.newest = int(position.get("newest", 0))

    def losses(self) -> tuple[type[Exception], ...]:
        return (OSError, LogError, ValueError, httpx.HTTPError)

    async def connection(self) -> AsyncIterator[Arrival]:
        # The agent's buffer may no longer hold what we want: whatever was in between is lost.
        with suppress(OutOfRangeError):
            async for arrival in self._stream():
                yield arrival
        self._next = None

    async def _stream(self) -> AsyncIterator[Arrival]:
        if self._next is None:
            async for arrival in self._begin():
                yield arrival
        query = f"from={self._next}&count={_COUNT}&interval={_INTERVAL_MS}&heartbeat={_HEARTBEAT_MS}"
        async with _asked(f"{self.address}/sample?{query}", 3.0 * _HEARTBEAT_MS / 1000.0 + 4.0) as answer:
            async for part in _parts(answer):
                page = read_page(part)
                if page.instance != self._instance:
                    raise OutOfRangeError  # sequences of another instance: begin again
                for arrival in self._tell(page):
                    yield arrival
        raise LogError("the stream ended")

    async def _begin(self) -> AsyncIterator[Arrival]:
        """Where everything stands, after which the stream goes on; what lies between is a gap."""
        page = read_page(await self._page("/current"))
        restarted = self._instance is not None and page.instance != self._instance
        self._instance, self._next = page.instance, page.following
        stamps = [stamp for _, stamp, _, _ in page.observations]
        now = max(stamps, default=page.created)
        if restarted:
            yield Notice("restart", "the agent was restarted")
        if self.newest and now > self.newest:
            text = "the agent was restarted" if restarted else "the agent's buffer did not reach back"
            yield Notice("gap", f"{text}: {(now - self.newest) / MICROSECONDS:.1f} s are lost", self.newest, now)
        for _, _, item, value in page.observations:
            for sample in self._samples(item, value, now, None):
                yield sample
        self.newest = max(now, self.newest)
        yield self._mark()

    def _tell(self, page: StreamsPage) -> Iterator[Arrival]:
        assert self._next is not None
        for sequence, stamp, item, value in page.observations:
            if sequence < self._next:
                yield Notice("doubled", f"the observation {sequence} was told again")
                continue
            self.newest = max(self.newest, stamp)
            yield from self._samples(item, value, stamp, sequence)
        if not page.observations and page.created > self.newest + MICROSECONDS:
            # A heartbeat: nothing changed, so everything is still in force.
            self.newest = page.created
            yield Sample(ALIVE, 1.0, page.created)
        self._next = max(self._next, page.following)
        yield self._mark()

    def _mark(self) -> Mark:
        return Mark({"instance": self._instance, "next": self._next, "newest": self.newest})

    def _samples(self, item: str, value: str, stamp: int, sequence: int | None) -> Iterator[Sample]:
        name = self._names.get(item)
        if name is None:
            return
        told: object = None if value == _UNAVAILABLE else value
        with suppress(ValueError):
            yield sample_of(name, told if told is None or name == PROGRAM else float(value), stamp, sequence)


@asynccontextmanager
async def _asked(url: str, silent_s: float = 10.0) -> AsyncIterator[httpx.Response]:
    """The answer to a GET, of which the head has arrived; nothing may be silent for longer than some seconds."""
    async with (
        httpx.AsyncClient(timeout=httpx.Timeout(10.0, read=silent_s), trust_env=False) as client,
        client.stream("GET", url, headers={"Accept": "text/xml"}) as answer,
    ):
        yield answer


async def _parts(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The documents of a multipart stream, each as soon as it is complete; its length stands in its head."""
    waiting = b""
    async for piece in answer.aiter_bytes():
        waiting += piece
        while (end_of_head := waiting.find(b"\r\n\r\n")) >= 0:
            stated = _PART_LENGTH.search(waiting, 0, end_of_head + 2)
            if stated is None:
                raise LogError(
                    "A part of the stream does not tell its length.", expected="Content-length in every part"
                )
            begin, end = end_of_head + 4, end_of_head + 4 + int(stated[1])
            if len(waiting) < end:
                break
            yield waiting[begin:end]
            waiting = waiting[end:]
        if len(waiting) > _LONGEST:
            raise LogError(_TOO_LONG, expected="parts with a Content-length")


def _key(item: Item) -> str:
    return item.id or item.name


def read_page(document: bytes) -> StreamsPage:
    """What an agent answered to /current or /sample."""
    try:
        root = ElementTree.fromstring(document)
    except ElementTree.ParseError as error:
        raise LogError(f"the agent sent something that is no XML: {error}") from error
    errors = [element for element in root.iter() if tag(element) == "Error"]
    if errors:
        if any(element.get("errorCode") == "OUT_OF_RANGE" for element in errors):
            raise OutOfRangeError
        raise LogError(f"the agent says: {errors[0].get('errorCode')} {(errors[0].text or '').strip()}")
    header = next((element for element in root.iter() if tag(element) == "Header"), None)
    if header is None:
        raise LogError("the agent's answer has no header")
    observations = [
        (int(element.get("sequence") or 0), _stamp(element.get("timestamp") or ""), element.get("dataItemId") or "",
         (element.text or "").strip())
        for element in root.iter()
        if element.get("dataItemId") and element.get("sequence")
    ]  # fmt: skip
    return StreamsPage(
        int(header.get("instanceId") or 0),
        int(header.get("nextSequence") or 0),
        _stamp(header.get("creationTime") or ""),
        sorted(observations),
    )


def _stamp(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * MICROSECONDS)
