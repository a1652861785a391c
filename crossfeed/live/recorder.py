"""The recorder: what arrives goes to the disk once a second, and what was recorded becomes a canonical table.

Samples up to two seconds late are kept. The table is cut and resampled as the logs of a machine are.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from crossfeed.errors import LogError
from crossfeed.files import HeldElsewhereError, locked
from crossfeed.live.row_maker import LATEST_S, gap_samples, to_frame
from crossfeed.live.source import RUN, Arrival, BoundedQueue, LiveSource, Mark, Notice, Sample, SourceClock, listening
from crossfeed.live.spool import (
    ENDING,
    HEADER,
    Damage,
    SpoolRecord,
    SpoolWriter,
    last_position,
    read_spool,
    spooled_format,
)
from crossfeed.logs.declaration import MICROSECONDS, LogFormat, RawRun
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Table

FLUSH_S, LOCK = 1.0, ".recording.lock"
OnFlush = Callable[[dict[str, float]], None]
_REMEMBERED = 4096


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
    log_format, content = spooled_format(folder), _read(folder)
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


def _read(folder: Path) -> _Content:
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
