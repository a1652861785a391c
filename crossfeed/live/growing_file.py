"""A CSV file that a logger is still writing, through its rotations: every whole line once, with ingest's own reader."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from crossfeed.errors import ConfigError, LogError
from crossfeed.files import temporary_file
from crossfeed.live.source import RUN, Arrival, LiveSource, Mark, Notice, Sample
from crossfeed.logs.declaration import CLOCK, LogFormat
from crossfeed.logs.delimited import sniff
from crossfeed.logs.mapped_logs import log_format_of
from crossfeed.logs.mapping import Mapping as LogMapping
from crossfeed.show.tables import plural

_CHUNK, _POLL_S = 1 << 20, 0.2


class GrowingFile(LiveSource):
    """Follows one path; a renamed file is read to its end before the new one under the old name."""

    def __init__(self, path: Path | str, mapping: Path | None) -> None:
        self.path = Path(path)
        self.title = f"the file {self.path}"
        if mapping is None:
            raise ConfigError(
                f"Nothing says what the columns of {self.path} mean.",
                expected="--mapping FILE.yaml",
                remedy=f"Write one with `crossfeed live discover file:{self.path} > mapping.yaml` and check it.",
            )
        self._mapping = LogMapping.from_yaml(mapping)
        if self._mapping.time.every is not None:
            raise ConfigError(
                f"{mapping} says that a row comes every {self._mapping.time.every}, so {self.path} has no clock.",
                expected="a column with the time: beside a running machine it says how old a row is",
                remedy="Let the logger write one, and name it in the mapping (time: {column: ...}).",
            )
        self._log_format = log_format_of(self._mapping)
        self._position: Mapping[str, Any] = {}

    async def open(self) -> LogFormat:
        """The kind that the mapping describes; the file may appear later."""
        return self._log_format

    def resume(self, position: Mapping[str, Any]) -> None:
        self._position = position

    async def arrivals(self) -> AsyncIterator[Arrival]:
        for part in self._earlier_parts():
            for arrival in part.arrivals():
                yield arrival
        part = _FilePart(self.path, self._log_format, self._mapping)
        if self.path.is_file() and _identity(status := self.path.stat()) == self._position.get("file"):
            part.offset = min(int(self._position["offset"]), status.st_size)
        while True:
            grown = False
            for arrival in part.arrivals():
                grown = True
                yield arrival
            if part.replaced():
                # The last lines may have been written between our look and the rotation.
                for arrival in part.arrivals():
                    yield arrival
                part.close()
                part = _FilePart(self.path, self._log_format, self._mapping)
                yield Notice("restart", f"{self.path.name} was rotated: a new file took its place")
            else:
                await asyncio.sleep(0.0 if grown else _POLL_S)

    def _earlier_parts(self) -> Iterator["_FilePart"]:
        """The file in which an earlier process stopped, if it has been renamed since: its rest comes first."""
        wanted = self._position.get("file")
        if wanted is None:
            return
        for path in sorted(self.path.parent.glob(f"{self.path.stem}*")):
            if path != self.path and path.is_file() and _identity(path.stat()) == wanted:
                part = _FilePart(path, self._log_format, self._mapping)
                part.offset = int(self._position["offset"])
                yield part
                part.close()


class _FilePart:
    """One file on disk, opened once and read as it grows."""

    def __init__(self, path: Path, log_format: LogFormat, mapping: LogMapping) -> None:
        self.path, self.log_format, self.offset = path, log_format, 0
        self._mapping = mapping
        self._file: Any = None
        self._head: bytes | None = None

    def replaced(self) -> bool:
        """Whether another file stands under the name, or this one was cut to less than was read."""
        if self._file is None or not self.path.exists():
            return False
        mine, there = os.fstat(self._file.fileno()), self.path.stat()
        return _identity(mine) != _identity(there) or there.st_size < self.offset

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def arrivals(self) -> Iterator[Arrival]:
        """Whole lines that were not read yet, as samples, and a mark behind them."""
        if self._file is None:
            if not self.path.is_file():
                return
            self._file = self.path.open("rb")
        if self._head is None and not self._find_head():
            return
        while lines := self._lines():
            yield from self._samples(lines)
            identity = _identity(os.fstat(self._file.fileno()))
            yield Mark({"file": identity, "offset": self.offset})

    def _find_head(self) -> bool:
        """Learn how the file is written, as soon as its header and a first row are there."""
        self._file.seek(0)
        beginning = self._file.read(_CHUNK)
        whole = beginning[: beginning.rfind(b"\n") + 1]
        if whole.count(b"\n") < 2:
            return False
        with temporary_file(whole, "part.csv") as file:
            dialect = sniff(file, self._mapping.separator, self._mapping.decimal)
        lines = whole.splitlines(keepends=True)
        if len(lines) < dialect.skip + 2:
            return False
        self._head = b"".join(lines[: dialect.skip + 1])
        written = {"separator": dialect.separator, "decimal": "," if dialect.decimal_comma else "."}
        self.log_format = log_format_of(self._mapping.model_copy(update=written))
        self.offset = max(self.offset, len(self._head))
        return True

    def _lines(self) -> bytes:
        self._file.seek(self.offset)
        chunk = self._file.read(_CHUNK)
        whole: bytes = chunk[: chunk.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole

    def _samples(self, lines: bytes) -> Iterator[Arrival]:
        assert self._head is not None
        with temporary_file(self._head + lines, f"{self.path.stem}.csv") as file:
            try:
                runs = list(self.log_format.read(self.log_format, file))
            except LogError as error:
                count = len(lines.splitlines())
                yield Notice("degraded", f"{plural(count, 'line')} of {self.path.name} left out: {error.found}")
                return
        constant = {column.channel for column in self.log_format.columns if column.constant is not None}
        for run in runs:
            frame = run.frame.filter(run.frame[CLOCK].is_not_null()).drop(*constant)
            for row in frame.iter_rows(named=True):
                time = row.pop(CLOCK)
                yield Sample(RUN, run.name, time)
                for name, value in row.items():
                    yield Sample(name, value, time)


def _identity(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}"
