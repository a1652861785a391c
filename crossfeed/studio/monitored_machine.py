"""What runs beside the service: a live machine or a table played back, each behind a monitor."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.files import plain
from crossfeed.live.monitor import Monitor
from crossfeed.live.snapshot import LivePlannedCommands, Snapshot
from crossfeed.live.source import Arrival, LiveSource, Sample, Value
from crossfeed.logs.declaration import MICROSECONDS, LogFormat, NativeColumn, Segmentation
from crossfeed.logs.table import Group
from crossfeed.scenarios.history import History
from crossfeed.show.tables import named
from crossfeed.studio.moments import TableMoments, moment_of_rows
from crossfeed.studio.requests import RefusalError

# What has to run before the source can be heard, such as a simulated machine; it says when it is there.
Companion = Callable[[Callable[[], None]], Coroutine[Any, Any, None]]
_AT_MOST_EVERY = 0.2  # s between two moments that are sent
_SHOWN_ROWS = 90
_PAUSE_ROWS = 60  # between two sessions that are played back: what was before says nothing about what follows


class TableReplay(LiveSource):
    """The sessions of a table, told as if their machine ran now; after the last it begins again."""

    replays = True

    def __init__(self, moments: TableMoments, speed: float) -> None:
        self.title = f"replay of {moments.file}"
        self._moments, self._table, self._speed = moments, moments.table, speed
        self._sessions: deque[tuple[int, Group]] = deque(maxlen=2)  # those of late, with the number of their first row

    async def open(self) -> LogFormat:
        table = self._table
        shown = {name: bool(np.isfinite(x).any()) for name, x in zip(table.schema.sensor_names, table.sensors.T)}
        return LogFormat(
            name="live",
            title=self.title,
            machine=named(list(dict.fromkeys(group.machine for group in table.groups))),
            schema=table.schema,
            columns=tuple(
                NativeColumn(c.name, c.name, c.unit) for c in table.schema.channels if shown.get(c.name, True)
            ),
            period=table.period,
            segmentation=Segmentation(),
            read=lambda log_format, path: iter(()),  # noqa: ARG005 (it is heard, not read)
        )

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """Row by row; those that the first forecast of a session reads come at once."""
        table, context, number = self._table, self._moments.model.config.context, 0
        names = (*table.schema.sensor_names, *table.schema.command_names)
        groups = [group for group in table.groups if len(group) > context + 1]
        while groups:
            for group in groups:
                begin = number + _PAUSE_ROWS
                self._sessions.append((begin, group))
                self.title = f"replay of {self._moments.file}, session {group.session}"
                for row in range(group.start, group.stop):
                    number = begin + round((table.time[row] - table.time[group.start]) / table.period)
                    values = [*table.sensors[row].tolist(), *table.commands[row].tolist()]
                    for name, value in zip(names, values, strict=True):
                        told = value if np.isfinite(value) else None
                        yield Sample(name, told, number * round(table.period * MICROSECONDS))
                    if row - group.start >= context - 1:
                        await asyncio.sleep(table.period / self._speed)

    def _row(self, moment: float) -> tuple[Group, int]:
        """The session and the row of the table that were told at this time."""
        number = round(moment / self._table.period)
        begin, group = next((each for each in reversed(self._sessions) if each[0] <= number), self._sessions[0])
        time = self._table.time[group.start : group.stop] - self._table.time[group.start]
        after = np.searchsorted(time, (number - begin + 0.5) * self._table.period)
        return group, group.start + max(int(after) - 1, self._moments.model.config.context - 1)

    def history(self, moment: float) -> History:
        """The rows up to a time that was told, and what really followed."""
        group, row = self._row(moment)
        return self._moments.at(group.key, float(self._table.time[row] - self._table.time[group.start]))

    def plan(
        self,
        states: Mapping[str, Value],  # noqa: ARG002 (the log says)
        now: float,
        last: Mapping[str, float | None],  # noqa: ARG002
        steps: int,
    ) -> LivePlannedCommands:
        """The commands that followed in the log; behind its last row that one is held."""
        group, row = self._row(now)
        logged = min(steps, group.stop - 1 - row)
        planned = self._table.commands[np.minimum(np.arange(row + 1, row + 1 + steps), group.stop - 1)]
        sentence = (
            "the commands that really followed in the log"
            if logged == steps
            else f"the commands of the log's last {logged} rows, then the last one held"
        )
        commands = zip(self._table.schema.command_names, map(tuple, planned.T.tolist()), strict=True)
        return LivePlannedCommands("followed", sentence, dict(commands))


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
        snapshot, source = self.monitor.snapshot(), self.monitor.source
        if isinstance(source, TableReplay):
            return source.history(snapshot.recent.times[-1]) if snapshot.recent.times else None
        return live_moment(self.opened, snapshot)

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


def live_content(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as JSON: the last rows, and only sensors that the machine tells."""
    shown = [name for name in snapshot.sensors if name in snapshot.lights]
    recent, plan = snapshot.recent, snapshot.plan
    content = {item.name: getattr(snapshot, item.name) for item in fields(snapshot)} | {
        "clock": snapshot.clock.isoformat(),
        "sensors": shown,
        "recent": {
            "times": recent.times[-_SHOWN_ROWS:],
            "sensors": {name: recent.sensors[name][-_SHOWN_ROWS:] for name in shown if name in recent.sensors},
            "commands": {name: values[-_SHOWN_ROWS:] for name, values in recent.commands.items()},
        },
        "plan": {"kind": plan.kind, "sentence": plan.sentence, "commands": plan.commands},
        "forecast": {name: interval for name, interval in snapshot.forecast.items() if name in shown},
    }
    return dict(plain(content))


class Moments:
    """The newest moment of what runs beside the service, or a named moment of the table."""

    def __init__(self, table: TableMoments | None, shown_machine: MonitoredMachine | None) -> None:
        self.table, self.shown_machine = table, shown_machine

    def at(self, session: str | None, at: float | None) -> History:
        """The rows up to a moment; the newest when none is named."""
        newest = session is None and at is None
        if newest and self.shown_machine is not None and (history := self.shown_machine.history) is not None:
            return history
        if self.table is not None:
            return self.table.at(session, at)
        if self.shown_machine is None:
            raise RefusalError(
                409,
                "The service has no history of its own.",
                expected="rows under 'history' in the request",
                remedy="Start crossfeed serve with --history or --live.",
            )
        if newest:
            raise RefusalError(409, "Too few live rows have arrived for a forecast.", remedy="Wait some seconds.")
        raise RefusalError(409, "There is no table to choose a moment from.", expected="no 'session' and no 'at'")

    def sessions(self) -> list[dict[str, Any]]:
        """What can be named."""
        return [] if self.table is None else self.table.sessions()
