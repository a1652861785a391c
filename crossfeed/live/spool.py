"""An append-only spool of everything that arrived: checksummed records, one a second, safe against a kill.

A folder holds `source.json` (what the source tells) and numbered segments, a new one for each process. A record is its
length, the CRC-32 of its content, and the content: samples, notices and the newest mark as packed JSON. What a killed
process left half written is recognised and left out. Samples are kept as they came, in the source's own units, so that
ingest's own code makes the table, at any row period, any number of times.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from crossfeed.errors import LogError
from crossfeed.files import read_sealed, storage_error, sync, write_sealed
from crossfeed.live.source import Notice, Sample
from crossfeed.logs.declaration import LogFormat, NativeColumn, Segmentation
from crossfeed.schema import Schema

HEADER, ENDING = "source.json", ".spool"
_FRAME = struct.Struct("<II")
_LONGEST = 1 << 28
_FORMAT = 1


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
        content = {"format": _FORMAT, "source": source, **described(log_format)}
        header = self.folder / HEADER
        if not header.exists():
            write_sealed(header, content)
            return
        header_content = _header(self.folder)
        if any(
            header_content.get(name) != json.loads(json.dumps(content[name]))
            for name in ("machine", "schema", "columns")
        ):
            raise LogError(
                f"The spool {self.folder} was begun with other channels, of {header_content.get('machine')}.",
                expected=f"the channels of {log_format.machine}",
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


def spooled_format(folder: Path) -> LogFormat:
    """What the source of a spool tells, without a way to read it."""
    header = _header(folder)
    return LogFormat(
        name="live",
        title=str(header["source"]),
        machine=header["machine"],
        schema=Schema.from_mapping(header["schema"], origin=str(folder / HEADER)),
        columns=tuple(NativeColumn(**_with_tuples(column)) for column in header["columns"]),
        period=header["period"],
        segmentation=Segmentation(**_with_tuples(header["segmentation"])),
        read=lambda log_format, path: iter(()),  # noqa: ARG005 (`to_table` brings its own)
        change_driven=header["change_driven"],
        local_time=header["local_time"],
    )


def described(log_format: LogFormat) -> dict[str, Any]:
    """A kind as JSON holds it."""
    return {
        "machine": log_format.machine,
        "schema": log_format.schema.model_dump(mode="json"),
        "columns": [asdict(column) for column in log_format.columns],
        "period": log_format.period,
        "segmentation": asdict(log_format.segmentation),
        "change_driven": log_format.change_driven,
        "local_time": log_format.local_time,
    }


def _with_tuples(content: dict[str, Any]) -> dict[str, Any]:
    """Fields as they were before JSON, which has lists alone."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}


def _header(folder: Path) -> dict[str, Any]:
    if not (folder / HEADER).exists():
        raise LogError(f"{folder} is no spool.", expected=f"a folder that `crossfeed live record` wrote, with {HEADER}")
    return read_sealed(folder / HEADER, remedy="Record into another folder.")
