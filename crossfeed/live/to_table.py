"""A spool becomes a canonical table, by the same segmentation and resampling as the logs of a machine."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from crossfeed.errors import LogError
from crossfeed.ingest.pipeline import ingest
from crossfeed.ingest.table import Table
from crossfeed.live.frame import gap_samples, to_frame
from crossfeed.live.source import RUN, Sample
from crossfeed.live.spool import ENDING, Damage, read_spool, spooled_format
from crossfeed.machines.declaration import MICROSECONDS, LogFormat, RawRun


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
    told = {"gaps": len(content.gaps), "rows_in_gaps": int(masked.sum()), "doubled_samples": content.doubled}
    return replace(table, sensors=sensors, manifest=table.manifest | {"live": told})


def _read(folder: Path) -> _Content:
    damage = Damage()
    known: dict[tuple[str, int], Sample] = {}
    gaps: list[tuple[int, int]] = []
    count = 0
    for record in read_spool(folder, damage):
        for sample in record.samples:
            known.setdefault((sample.channel, sample.time), sample)
        count += len(record.samples)
        gaps += [(notice.begin, notice.end) for notice in record.notices if notice.kind == "gap"]
    return _Content(list(known.values()), gaps, count - len(known), damage)


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
