"""The moment a forecast starts from: of a served table, of rows a client sent, or the newest beside the service.

What runs beside the service is a live machine or a table played back, each behind a monitor.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import fields, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from crossfeed.errors import TableError
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.files import plain
from crossfeed.live.monitor import Monitor
from crossfeed.live.snapshot import LivePlannedCommands, Snapshot
from crossfeed.live.source import Arrival, LiveSource, Sample, Value
from crossfeed.logs.align import align
from crossfeed.logs.declaration import MICROSECONDS, LogFormat, NativeColumn, Segmentation
from crossfeed.logs.table import Group, Table
from crossfeed.model.forecast import read_history as read_rows_sent
from crossfeed.scenarios.history import History, read_history
from crossfeed.show.tables import named
from crossfeed.studio.requests import MomentRequest

# What has to run before the source can be heard, such as a simulated machine; it says when it is there.
Companion = Callable[[Callable[[], None]], Coroutine[Any, Any, None]]
_AT_MOST_EVERY = 0.2  # s between two moments that are sent
_SHOWN_ROWS = 90
_REMEMBERED = 128
_PAUSE_ROWS = 60  # between two sessions that are played back: what was before says nothing about what follows


class TableMoments:
    """Moments of one table; the same moment is cut once."""

    def __init__(self, table: Table, opened: OpenedModel, file: str) -> None:
        opened.check_rows(table.period, f"The table {file}")
        self.table, self.model, self.file = align(table, opened.model.schema), opened.model, file
        self.at = lru_cache(_REMEMBERED)(partial(read_history, self.table, self.model))

    def sessions(self) -> list[dict[str, Any]]:
        return [
            {
                "session": group.key,
                "machine": group.machine,
                "program": group.program,
                "first": self.model.config.context * self.table.period,
                "seconds": float(self.table.time[group.stop - 1] - self.table.time[group.start]),
            }
            for group in self.table.groups
            if len(group) > self.model.config.context
        ]


class TableReplay(LiveSource):
    """The sessions of a table, told as if their machine ran now; after the last it begins again."""

    replays = True

    def __init__(self, moments: TableMoments, speed: float) -> None:
        self.title = f"replay of {moments.file}"
        self._moments, self._table, self._speed = moments, moments.table, speed
        self._sessions: deque[tuple[int, Group]] = deque(maxlen=2)  # those of late, with the number of their first row

    async def open(self) -> LogFormat:
        table, unseen = self._table, self._moments.model.normaliser.unseen
        present = zip(table.schema.sensor_names, np.isfinite(table.sensors).any(axis=0), strict=True)
        shown = {name: bool(known) and name not in unseen for name, known in present}
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


def sent_moment(asked: MomentRequest, opened: OpenedModel) -> History:
    """The rows that came with a request."""
    model, columns = opened.model, asked.history or {}
    names = (*model.schema.sensor_names, *model.schema.command_names)
    unknown = [name for name in columns if name not in names]
    if unknown:
        raise TableError(f"The history has the unknown column '{unknown[0]}'.", expected=f"some of {', '.join(names)}")
    numbers = {name: np.array(values, dtype=np.float64) for name, values in columns.items()}
    read_rows_sent(model, numbers)  # refuses what is too short, in other units, or without commands
    rows = len(next(iter(numbers.values())))
    absent = np.full(rows, np.nan)
    sensors = np.stack([numbers.get(name, absent) for name in model.schema.sensor_names], axis=1)
    commands = np.stack([numbers[name] for name in model.schema.command_names], axis=1)
    return moment_of_rows(opened, sensors, commands, "sent rows")


def moment_of_rows(opened: OpenedModel, sensors: np.ndarray, commands: np.ndarray, session: str) -> History:
    """A history made of bare rows in the model's order and units; nothing is known of what follows."""
    model = opened.model
    period = float(opened.provenance.get("row_period", 1.0))
    unseen = [name in model.normaliser.unseen for name in model.schema.sensor_names]
    ranges = opened.provenance.get("command_range") or {}
    low, high = np.nanmin(commands, axis=0), np.nanmax(commands, axis=0)
    for column, name in enumerate(model.schema.command_names):
        if name in ranges:
            low[column], high[column] = min(low[column], ranges[name][0]), max(high[column], ranges[name][1])
    machine = named([*map(str, opened.provenance.get("machines", ()))]) or "this machine"
    return History(
        schema=model.schema,
        group=Group(machine, session, session, "", 0, len(sensors)),
        at=(len(sensors) - 1) * period,
        period=period,
        sensors=np.where(unseen, np.nan, sensors),
        commands=commands,
        following_sensors=np.empty((0, sensors.shape[1])),
        following_commands=np.empty((0, commands.shape[1])),
        command_low=low,
        command_high=high,
        fingerprint="",
        file=None,
    )


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
