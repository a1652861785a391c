"""A live machine beside the service: what its monitor knows, as the page and the what-ifs want it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import Any

import numpy as np

from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.live.monitor import Monitor
from crossfeed.live.snapshot import Snapshot
from crossfeed.serving.history import History
from crossfeed.studio.moments import moment_of_rows

# What has to run before the source can be heard, such as a simulated machine; it says when it is there.
Companion = Callable[[Callable[[], None]], Coroutine[Any, Any, None]]
_AT_MOST_EVERY = 0.2  # s between two moments that are sent


class MonitoredMachine:
    """Reads the monitor, never the machine."""

    def __init__(self, opened: OpenedModel, monitor: Monitor, companion: Companion | None = None) -> None:
        self.opened, self.monitor, self._companion = opened, monitor, companion

    async def run(self) -> None:
        """Listen until cancelled; a companion begins before and ends with it."""
        if self._companion is None:
            await self.monitor.run()
            return
        ready = asyncio.Event()
        companion, waiting = asyncio.create_task(self._companion(ready.set)), asyncio.create_task(ready.wait())
        try:
            await asyncio.wait({waiting, companion}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            await self.monitor.run()
        finally:
            companion.cancel()
            await asyncio.gather(companion, return_exceptions=True)

    def snapshot(self) -> Snapshot:
        return self.monitor.snapshot()

    async def updates(self) -> AsyncIterator[Snapshot]:
        yield self.snapshot()
        sent = 0.0
        async for snapshot in self.monitor.updates():
            if time.monotonic() - sent >= _AT_MOST_EVERY:
                sent = time.monotonic()
                yield snapshot

    @property
    def history(self) -> History | None:
        """The newest rows without a gap, if there are enough; a running program stands for what follows."""
        return live_moment(self.opened, self.monitor.snapshot())

    def calibration(self) -> dict[str, dict[str, Any]]:
        """How the intervals have held of late, by sensor, as the lights judge them."""
        records = self.monitor.promise_records
        return {
            name: {"forecasts": len(record.inside), "inside90": record.coverage}
            for name, record in records.items()
            if record.inside
        }


def live_moment(opened: OpenedModel, snapshot: Snapshot) -> History | None:
    """The rows since the last gap as the history of a forecast; None while they are fewer than the context."""
    schema, recent = opened.model.schema, snapshot.recent
    if not recent.times:
        return None
    times = np.array(recent.times)
    sensors = _columns(recent.sensors, schema.sensor_names, len(times))
    commands = _columns(recent.commands, schema.command_names, len(times))
    broken = np.flatnonzero(np.abs(np.diff(times) - snapshot.period) > 0.01 * snapshot.period) + 1
    lacking = np.flatnonzero(~np.isfinite(commands).all(axis=1)) + 1
    first = int(max(broken.max(initial=0), lacking.max(initial=0)))
    context = opened.model.config.context
    if len(times) - first < context or not np.isfinite(sensors[-context:]).any():
        return None
    moment = moment_of_rows(opened, sensors[first:], commands[first:], snapshot.source)
    moment = replace(moment, group=replace(moment.group, machine=snapshot.machine))
    if snapshot.plan.kind != "program":
        return moment
    parts = (snapshot.plan.commands, snapshot.plan.following)
    planned = np.concatenate([_columns(part, schema.command_names, len(next(iter(part.values())))) for part in parts])
    unknown = np.full((len(planned), len(schema.sensors)), np.nan)
    return replace(moment, following_commands=planned, following_sensors=unknown)


def _columns(values: Any, names: tuple[str, ...], rows: int) -> np.ndarray:
    absent = [None] * rows
    return np.array([values.get(name, absent) for name in names], dtype=np.float64).T.reshape(rows, len(names))
