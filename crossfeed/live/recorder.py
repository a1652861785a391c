"""The recorder: what arrives goes to an append-only spool once a second, and becomes a canonical table.

A spool is a folder with `source.json` (what the source tells) and numbered segments, a new one for each process. A
record is its length, the CRC-32 of its content, and the content: samples, notices and the newest mark as packed JSON.
What a killed process left half written is recognised and left out. Samples are kept as they came, in the source's own
units, up to two seconds late, so that ingest's own code makes the table, at any row period, any number of times.
"""

import asyncio
import json
import os
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from pydantic import Field

from crossfeed.configuration import CheckedForm
from crossfeed.errors import LogError
from crossfeed.files import HeldElsewhereError, locked, read_sealed, storage_error, sync, write_sealed
from crossfeed.live.row_maker import LATEST_S, gap_samples, to_frame
from crossfeed.live.source import RUN, Arrival, BoundedQueue, LiveSource, Mark, Notice, Sample, SourceClock, listening
from crossfeed.logs.declaration import MICROSECONDS, LogFormat, NativeColumn, RawRun, Segmentation
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Table
from crossfeed.schema import Schema

FLUSH_S, LOCK = 1.0, ".recording.lock"
HEADER, ENDING = "source.json", ".spool"
OnFlush = Callable[[dict[str, float]], None]
_REMEMBERED = 4096
_FRAME = struct.Struct("<II")
_LONGEST = 1 << 28


class SpoolHeader(CheckedForm):
    """What the source of a spool tells."""

    format: int = 1
    source: str
    machine: str
    schema_: Schema = Field(alias="schema")
    columns: tuple[NativeColumn, ...]
    period: float
    segmentation: Segmentation
    change_driven: bool
    local_time: bool

    @classmethod
    def of(cls, log_format: LogFormat, source: str) -> "SpoolHeader":
        """What a source with this title tells."""
        names = ("machine", "schema", "columns", "period", "segmentation", "change_driven", "local_time")
        return cls(source=source, **{name: getattr(log_format, name) for name in names})

    @classmethod
    def read(cls, folder: Path) -> "SpoolHeader":
        """The header of a spool that is there."""
        if not (folder / HEADER).exists():
            raise LogError(
                f"{folder} is no spool.", expected=f"a folder that `crossfeed live record` wrote, with {HEADER}"
            )
        return cls(**read_sealed(folder / HEADER, remedy="Record into another folder."))

    def log_format(self) -> LogFormat:
        """A kind of log with everything but a way to read it."""
        told = {name: value for name, value in self if name not in ("format", "source", "schema_")}
        return LogFormat(
            name="live",
            title=self.source,
            schema=self.schema_,
            read=lambda log_format, path: iter(()),  # noqa: ARG005 (`to_table` brings its own)
            **told,
        )


@dataclass(slots=True)
class SpoolRecord:
    """What arrived within about a second."""

    samples: list[Sample] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    position: Mapping[str, Any] | None = None

    def pack(self) -> bytes:
        names = list(dict.fromkeys(sample.channel for sample in self.samples))
        numbers = {name: number for number, name in enumerate(names)}
        content = {
            "names": names,
            "channel": [numbers[sample.channel] for sample in self.samples],
            "time": [sample.time for sample in self.samples],
            "value": [sample.value for sample in self.samples],
            "sequence": [sample.sequence for sample in self.samples],
            "notices": [asdict(notice) for notice in self.notices],
            "position": self.position,
        }
        return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1)

    @classmethod
    def unpack(cls, packed: bytes) -> "SpoolRecord":
        content = json.loads(zlib.decompress(packed))
        columns = zip(content["channel"], content["value"], content["time"], content["sequence"], strict=True)
        samples = [Sample(content["names"][channel], value, time, number) for channel, value, time, number in columns]
        return cls(samples, [Notice(**notice) for notice in content["notices"]], content["position"])


class SpoolWriter:
    """Appends records to a segment of its own; each is on the disk when `append` returns."""

    def __init__(self, folder: Path, log_format: LogFormat, source: str) -> None:
        self.folder = folder
        self._check_format(log_format, source)
        try:
            self._file: BinaryIO = self._segment().open("xb", buffering=0)
            sync(folder)
        except OSError as error:
            raise storage_error("Writing", folder, error) from error

    def _check_format(self, log_format: LogFormat, source: str) -> None:
        header = SpoolHeader.of(log_format, source)
        if not (self.folder / HEADER).exists():
            write_sealed(self.folder / HEADER, header.model_dump(by_alias=True))
            return
        begun = SpoolHeader.read(self.folder)
        if (begun.machine, begun.schema_, begun.columns) != (header.machine, header.schema_, header.columns):
            raise LogError(
                f"The spool {self.folder} was begun with other channels, of {begun.machine}.",
                expected=f"the channels of {header.machine}",
                remedy="Record into another folder.",
            )

    def _segment(self) -> Path:
        numbers = [int(path.stem) for path in self.folder.glob(f"*{ENDING}") if path.stem.isdecimal()]
        return self.folder / f"{max(numbers, default=0) + 1:06d}{ENDING}"

    def append(self, record: SpoolRecord) -> None:
        """Write one record and wait until it is on the disk."""
        packed = record.pack()
        try:
            self._file.write(_FRAME.pack(len(packed), zlib.crc32(packed)) + packed)
            os.fsync(self._file.fileno())
        except OSError as error:
            raise storage_error("Writing", self.folder, error) from error

    def close(self) -> None:
        self._file.close()


@dataclass(slots=True)
class Damage:
    """What could not be read: ends that a kill cut off, and records whose checksum is wrong."""

    cut_off: int = 0
    broken: int = 0


def read_spool(folder: Path, damage: Damage | None = None) -> Iterator[SpoolRecord]:
    """Every whole record, in the order in which they were written."""
    damage = damage or Damage()
    for path in sorted(folder.glob(f"*{ENDING}")):
        with path.open("rb") as file:
            for frame in _frames(file, damage):
                if record := _read(file, frame):
                    yield record
                else:
                    damage.broken += 1


def _frames(file: BinaryIO, damage: Damage) -> Iterator[tuple[int, int, int]]:
    """Where each whole record of a segment begins, its length and its checksum; contents are passed over."""
    size, begin = os.fstat(file.fileno()).st_size, 0
    while begin < size:
        file.seek(begin)
        head = file.read(_FRAME.size)
        length, checksum = _FRAME.unpack(head) if len(head) == _FRAME.size else (_LONGEST + 1, 0)
        begin += _FRAME.size
        if length > _LONGEST or begin + length > size:
            damage.cut_off += 1
            return
        yield begin, length, checksum
        begin += length


def _read(file: BinaryIO, frame: tuple[int, int, int]) -> SpoolRecord | None:
    """The record of a frame; None where its checksum is wrong."""
    begin, length, checksum = frame
    file.seek(begin)
    packed = file.read(length)
    return SpoolRecord.unpack(packed) if zlib.crc32(packed) == checksum else None


def last_position(folder: Path) -> Mapping[str, Any] | None:
    """Where an earlier process stopped: the newest mark, looked for from the end."""
    for path in sorted(folder.glob(f"*{ENDING}"), reverse=True):
        with path.open("rb") as file:
            for frame in reversed(list(_frames(file, Damage()))):
                if (record := _read(file, frame)) and record.position:
                    return record.position
    return None


class LiveRecorder:
    """Sorts arrivals into records; a sample told twice is kept once, one that is too late is counted."""

    def __init__(self, folder: Path, log_format: LogFormat, source: str) -> None:
        self._writer = SpoolWriter(folder, log_format, source)
        self._record = SpoolRecord()
        self._newest: int | None = None
        self._seen: dict[tuple[str, int], None] = {}
        self.counts: Counter[str] = Counter()

    def take(self, arrival: Arrival) -> None:
        """Keep an arrival for the next record."""
        if isinstance(arrival, Mark):
            self._record.position = arrival.position
        elif isinstance(arrival, Notice):
            self._record.notices.append(arrival)
            self.counts[arrival.kind] += 1
        elif self._newest is not None and arrival.time < self._newest - round(LATEST_S * MICROSECONDS):
            self.counts["late"] += 1
        elif (arrival.channel, arrival.time) in self._seen:
            self.counts["doubled"] += 1
        else:
            self._seen[arrival.channel, arrival.time] = None
            if len(self._seen) > _REMEMBERED:
                del self._seen[next(iter(self._seen))]
            self._newest = arrival.time if self._newest is None else max(arrival.time, self._newest)
            self._record.samples.append(arrival)
            self.counts["samples"] += 1

    def flush(self) -> None:
        """Bring what was taken to the disk."""
        if self._record.samples or self._record.notices or self._record.position is not None:
            self._writer.append(self._record)
            self._record = SpoolRecord()

    def close(self) -> None:
        self.flush()
        self._writer.close()


async def record(
    source: LiveSource, folder: Path, *, speed: float = 1.0, on_flush: OnFlush | None = None
) -> dict[str, float]:
    """Record a source until cancelled or at its end; a spool that exists is continued where it stopped."""
    try:
        with locked(folder / LOCK, wait=False):
            return await _record(source, folder, speed, on_flush)
    except HeldElsewhereError:
        raise LogError(
            f"Another process records into {folder}.",
            remedy="Let it work, or record into another folder: two recorders would keep everything twice.",
        ) from None


async def _record(source: LiveSource, folder: Path, speed: float, on_flush: OnFlush | None) -> dict[str, float]:
    log_format = await source.open()
    if (folder / HEADER).exists() and (position := last_position(folder)) is not None:
        source.resume(position)
    recorder, queue, clock = LiveRecorder(folder, log_format, source.title), BoundedQueue(), SourceClock(speed)

    def put(arrival: Arrival) -> None:
        if isinstance(arrival, Sample):
            clock.observe(arrival.time)
        queue.put(arrival)

    def counts() -> dict[str, float]:
        names = ("samples", "late", "doubled", "gap", "reconnect", "restart", "degraded")
        totals: dict[str, float] = {name: recorder.counts[name] for name in names}
        return totals | {"dropped": queue.dropped, "skew": round(clock.skew, 3)}

    flushed = time.monotonic()
    async with listening(source, put) as heard:
        try:
            while True:
                for arrival in await queue.take(FLUSH_S / 4):
                    recorder.take(arrival)
                if time.monotonic() - flushed >= FLUSH_S or heard.done():
                    await asyncio.to_thread(recorder.flush)
                    flushed = time.monotonic()
                    if on_flush is not None:
                        on_flush(counts())
                if heard.done() and not len(queue):
                    heard.result()
                    return counts()
        finally:
            recorder.close()


@dataclass(slots=True)
class _Content:
    """Everything in a spool, each sample once."""

    samples: list[Sample]
    gaps: list[tuple[int, int]]
    doubled: int
    damage: Damage


def spool_to_table(folder: Path, *, period: float | None = None, machine: str | None = None) -> Table:
    """The table of everything that was recorded; gaps in the connection are absent, never filled."""
    log_format, content = SpoolHeader.read(folder).log_format(), _content(folder)
    if not content.samples:
        raise LogError(f"The spool {folder} holds no sample.", remedy="Record for longer, or check the source.")

    def read(log_format: LogFormat, path: Path) -> Iterator[RawRun]:  # noqa: ARG001 (read once, above)
        return _runs(log_format, content, folder)

    table = ingest(replace(log_format, read=read), folder, period=period, machine=machine)
    ticks = round(table.period * MICROSECONDS)
    ends = np.round(table.time * MICROSECONDS).astype(np.int64)
    masked = np.zeros(len(table), dtype=bool)
    for begin, end in content.gaps:
        masked |= (ends - ticks < end) & (begin < ends)
    sensors = np.where(masked[:, None], np.nan, table.sensors)
    facts = {"gaps": len(content.gaps), "rows_in_gaps": int(masked.sum()), "doubled_samples": content.doubled}
    return replace(table, sensors=sensors, manifest=table.manifest | {"live": facts})


def _content(folder: Path) -> _Content:
    damage = Damage()
    samples: dict[tuple[str, int], Sample] = {}
    gaps: list[tuple[int, int]] = []
    count = 0
    for record in read_spool(folder, damage):
        for sample in record.samples:
            samples.setdefault((sample.channel, sample.time), sample)
        count += len(record.samples)
        gaps += [(notice.begin, notice.end) for notice in record.notices if notice.kind == "gap"]
    return _Content(list(samples.values()), gaps, count - len(samples), damage)


def _runs(log_format: LogFormat, content: _Content, folder: Path) -> Iterator[RawRun]:
    samples = [*content.samples, *(sample for gap in content.gaps for sample in gap_samples(log_format, *gap))]
    frame = to_frame(samples, log_format, extra=[RUN])
    files = tuple(sorted(folder.glob(f"*{ENDING}")))
    repairs = {}
    if content.doubled:
        repairs["samples told twice, kept once"] = content.doubled
    if content.damage.cut_off:
        repairs["ends of the spool that were cut off, left out"] = content.damage.cut_off
    if content.damage.broken:
        repairs["records of the spool with a wrong checksum, left out"] = content.damage.broken
    for number, part in enumerate(frame.partition_by(RUN, maintain_order=True)):
        first = number == 0
        name = part[RUN][0]
        rows = part.drop(RUN)
        yield RawRun(name, rows, rows.height, files if first else (), repairs if first else {})
