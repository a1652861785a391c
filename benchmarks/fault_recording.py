"""A log that grows and its recorder, in processes that can be killed."""

import asyncio
import os
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from fault_children import ended, forked
from fault_material import LIVE_BYTES, LIVE_ROWS

from crossfeed.files import locked
from crossfeed.live.open_source import SourceOptions, open_source
from crossfeed.live.recorder import HEADER, read_spool, record, spool_to_table
from crossfeed.logs.declaration import MICROSECONDS


def record_log(folder: Path, material: Path, name: str = "out") -> None:
    """Record a log while it grows, until its last row is in the spool; a log that was begun goes on growing."""
    whole, log, spool = (material / "live.csv").read_bytes(), folder / "log.csv", folder / name
    last = (LIVE_ROWS - 1) * MICROSECONDS

    def grow() -> None:
        """The logger is a process of its own: neither our kills nor our full disk are its own."""
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        with locked(material / ".logger.lock"), log.open("ab") as file:
            for start in range(file.tell(), len(whole), LIVE_BYTES):
                file.write(whole[start : start + LIVE_BYTES])
                file.flush()
                time.sleep(0.1)

    async def work() -> None:
        source = open_source(f"file:{log}", SourceOptions(mapping=material / "live.yaml"))
        recording = asyncio.create_task(record(source, spool))
        while not recording.done():
            if (spool / HEADER).exists() and any(s.time >= last for r in read_spool(spool) for s in r.samples):
                recording.cancel()
            await asyncio.wait({recording}, timeout=0.2)
        with suppress(asyncio.CancelledError):
            recording.result()

    logger = forked(grow)
    try:
        asyncio.run(work())
    finally:
        with suppress(ProcessLookupError):
            os.kill(logger, signal.SIGKILL)
        ended(logger)


def recorded(folder: Path) -> Any:
    """Losses and doubles would both show: rows in the table, and what the spool holds more than once."""
    table = spool_to_table(folder / "out")
    return [table.fingerprint(), len(table), table.manifest["live"]]
