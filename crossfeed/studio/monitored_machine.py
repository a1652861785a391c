"""A live machine beside the service: what its monitor knows, as the page and the what-ifs want it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.live.monitor import Monitor
from crossfeed.live.snapshot import ChannelForecast, Counters, Light, LivePlannedCommands, RecentRows, Snapshot, worst
from crossfeed.logs.table import Group
from crossfeed.model.forecast import forecast
from crossfeed.scenarios.history import History
from crossfeed.studio.moments import SHOWN_ROWS, IntervalRecord, TableMoments, moment_of_rows

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


# A table played back as if its machine ran now: history, forecast and calibration so far, row by row.


_LEVELS = (0.5, 0.05, 0.95)  # median, low and high of a ChannelForecast


class Replay:
    """Walks along the sessions of a table; at the end it begins again."""

    def __init__(self, opened: OpenedModel, moments: TableMoments, speed: float) -> None:
        self.opened, self.moments, self.speed = opened, moments, speed
        context = opened.model.config.context
        self._groups = [group for group in moments.table.groups if len(group) > context + 1]
        self._record = IntervalRecord()
        self._rows = 0
        self._snapshot: Snapshot | None = None
        self.history: History | None = None  # the rows up to the moment that is shown
        self._changed = asyncio.Condition()

    def snapshot(self) -> Snapshot | None:
        return self._snapshot

    async def updates(self) -> AsyncIterator[Snapshot]:
        """Every new moment, for as long as anyone listens; one who is slow misses some."""
        sent: Snapshot | None = None
        while True:
            async with self._changed:
                while (newest := self._snapshot) is None or newest is sent:
                    await self._changed.wait()
            sent = newest
            yield newest

    async def run(self) -> None:
        """Play for ever."""
        context, period = self.opened.model.config.context, self.moments.table.period
        while self._groups:
            for group in self._groups:
                self._record.forget()
                for row in range(context - 1, len(group)):
                    await asyncio.to_thread(self._step, group, row)
                    async with self._changed:
                        self._changed.notify_all()
                    await asyncio.sleep(period / self.speed)

    def _step(self, group: Group, row: int) -> None:
        table, model = self.moments.table, self.opened.model
        start = float(table.time[group.start])
        history = self.moments.at(group.key, float(table.time[group.start + row]) - start)
        names = model.schema.sensor_names
        self._record.observe(row, dict(zip(names, history.sensors[-1].tolist())))
        longest = model.horizons[-1]
        planned = history.following_commands[:longest]
        logged = len(planned)
        if logged < longest:
            last = planned[-1:] if logged else history.commands[-1:]
            planned = np.concatenate([planned, np.repeat(last, longest - logged, axis=0)])
        context = model.config.context
        rows = np.concatenate([history.sensors[-context:], history.commands[-context:]], axis=1)
        forecasted = forecast(model, rows, planned)
        bounds = forecasted.quantiles(_LEVELS)
        columns = ((name, names.index(name)) for name in forecasted.measured)
        forecasts = {
            name: ChannelForecast(*(tuple(values[:, column].tolist()) for values in bounds)) for name, column in columns
        }
        self._record.promise(row, forecasted.horizons, forecasts)
        self._rows += 1
        self.history = history
        self._snapshot = self._shown(history, forecasts, planned, logged)

    def calibration(self) -> dict[str, dict[str, Any]]:
        """Share of the values that fell inside their 90 % interval, by sensor."""
        return self._record.content()

    def _shown(
        self, history: History, forecasts: Mapping[str, ChannelForecast], planned: np.ndarray, logged: int
    ) -> Snapshot:
        schema, names = history.schema, history.schema.command_names
        present = {name: schema.sensor_names.index(name) for name in forecasts}
        lights = {name: self._record.light(name) for name in present}
        sentence = (
            "the commands that really followed in the log"
            if logged == len(planned)
            else f"the commands of the log's last {logged} rows, then the last one held"
        )
        sensors, commands = history.sensors[-SHOWN_ROWS:], history.commands[-SHOWN_ROWS:]
        times = np.arange(1 - len(sensors), 1) * history.period + history.at
        return Snapshot(
            machine=history.group.machine,
            source=f"replay of {self.moments.file}, session {history.group.session}",
            clock=datetime.now(UTC),
            row_age=0.0,
            forecast_age=0.0,
            period=history.period,
            sensors=tuple(present),
            commands=names,
            units={channel.name: channel.unit for channel in schema.channels},
            recent=RecentRows(
                tuple(times.tolist()),
                {name: tuple(sensors[:, column].tolist()) for name, column in present.items()},
                {name: tuple(values) for name, values in zip(names, commands.T.tolist(), strict=True)},
            ),
            plan=LivePlannedCommands(
                "followed", sentence, dict(zip(names, map(tuple, planned.T.tolist()), strict=True))
            ),
            horizons=self.opened.model.horizons,
            forecast=forecasts,
            lights=lights,
            verdict=_verdict(lights),
            counters=Counters(rows=self._rows),
        )


def _verdict(lights: Mapping[str, Light]) -> Light:
    """The worst light, and whose it is."""
    colour = worst(lights)
    names = ", ".join(name for name, light in lights.items() if light.colour == colour)
    sentences = {"red": f"Do not rely on {names} here.", "amber": f"With care: {names}."}
    return Light(colour, sentences.get(colour, "All intervals have held so far."))
