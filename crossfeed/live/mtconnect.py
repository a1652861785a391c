"""MTConnect agents: /probe says what there is, /current where it stands, /sample streams what changes."""

import asyncio
import xml.etree.ElementTree as ElementTree
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from crossfeed.atomic import temporary_file
from crossfeed.errors import ConfigError, LogError
from crossfeed.live.http_stream import get
from crossfeed.live.source import (
    ALIVE,
    LINE,
    OVERRIDES,
    Arrival,
    LiveSource,
    Mark,
    Notice,
    Sample,
    live_segmentation,
    reconnecting,
)
from crossfeed.machines.declaration import MICROSECONDS, PROGRAM, LogFormat
from crossfeed.machines.mtconnect import LOG_FORMAT
from crossfeed.machines.mtconnect_channels import propose
from crossfeed.machines.mtconnect_devices import Item, read_devices, tag
from crossfeed.machines.mtconnect_mapping import DeviceMapping
from crossfeed.schema import canonical

_INTERVAL_MS, _HEARTBEAT_MS, _COUNT = 100, 2000, 10000
_UNAVAILABLE = "UNAVAILABLE"
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


class MtconnectSource(LiveSource):
    """One device of an agent; a mapping of the kind `crossfeed ingest mtconnect` takes renames or drops items."""

    def __init__(self, address: str, mapping: Path | None = None) -> None:
        self.address, self.title = address.rstrip("/"), f"the MTConnect agent {address}"
        self._mapping = DeviceMapping.from_yaml(mapping) if mapping is not None else None
        self._names: dict[str, str] = {}
        self._instance: int | None = None
        self._next: int | None = None
        self._newest = 0

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
        for proposed in proposal.channels:
            if proposed.name in OVERRIDES:
                self._names.setdefault(_key(proposed.item), OVERRIDES[proposed.name])
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
        try:
            answer = await get(self.address + path)
            async with asyncio.timeout(30.0):
                page = await answer.whole()
            answer.writer.close()
        except (OSError, asyncio.IncompleteReadError) as error:
            raise LogError(
                f"There is no MTConnect agent at {self.address}: {error or 'no answer'}.",
                expected="an address such as http://192.168.0.10:5000 that answers /probe",
            ) from error
        return page

    def resume(self, position: Mapping[str, Any]) -> None:
        self._instance, self._next = int(position["instance"]), int(position["next"])
        self._newest = int(position.get("newest", 0))

    def arrivals(self) -> AsyncIterator[Arrival]:
        errors = (OSError, LogError, ValueError, asyncio.IncompleteReadError)
        return reconnecting(self._connection, errors, "the agent is back")

    async def _connection(self) -> AsyncIterator[Arrival]:
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
        answer = await get(f"{self.address}/sample?{query}")
        try:
            parts = answer.parts()
            while True:
                async with asyncio.timeout(3.0 * _HEARTBEAT_MS / 1000.0 + 4.0):
                    part = await anext(parts, None)
                if part is None:
                    raise LogError("the stream ended")
                page = read_page(part)
                if page.instance != self._instance:
                    raise OutOfRangeError  # sequences of another instance: begin again
                for arrival in self._tell(page):
                    yield arrival
        finally:
            answer.writer.close()

    async def _begin(self) -> AsyncIterator[Arrival]:
        """Where everything stands, after which the stream goes on; what lies between is a gap."""
        page = read_page(await self._page("/current"))
        restarted = self._instance is not None and page.instance != self._instance
        self._instance, self._next = page.instance, page.following
        stamps = [stamp for _, stamp, _, _ in page.observations]
        now = max(stamps, default=page.created)
        if restarted:
            yield Notice("restart", "the agent was restarted")
        if self._newest and now > self._newest:
            text = "the agent was restarted" if restarted else "the agent's buffer did not reach back"
            yield Notice("gap", f"{text}: {(now - self._newest) / MICROSECONDS:.1f} s are lost", self._newest, now)
        for _, _, item, value in page.observations:
            for sample in self._samples(item, value, now, None):
                yield sample
        self._newest = max(now, self._newest)
        yield self._mark()

    def _tell(self, page: StreamsPage) -> Iterator[Arrival]:
        assert self._next is not None
        for sequence, stamp, item, value in page.observations:
            if sequence < self._next:
                yield Notice("doubled", f"the observation {sequence} was told again")
                continue
            self._newest = max(self._newest, stamp)
            yield from self._samples(item, value, stamp, sequence)
        if not page.observations and page.created > self._newest + MICROSECONDS:
            # A heartbeat: nothing changed, so everything is still in force.
            self._newest = page.created
            yield Sample(ALIVE, 1.0, page.created)
        self._next = max(self._next, page.following)
        yield self._mark()

    def _mark(self) -> Mark:
        return Mark({"instance": self._instance, "next": self._next, "newest": self._newest})

    def _samples(self, item: str, value: str, stamp: int, sequence: int | None) -> Iterator[Sample]:
        name = self._names.get(item)
        if name is None:
            return
        gone = value == _UNAVAILABLE
        if name == PROGRAM:
            yield Sample(name, "" if gone else value, stamp, sequence)
            return
        with suppress(ValueError):
            yield Sample(name, None if gone else float(value), stamp, sequence)


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
