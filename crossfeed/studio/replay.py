"""A table played back as if its machine ran now: history, forecast and calibration so far, row by row."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.ingest.table import Group
from crossfeed.live.snapshot import ChannelForecast, Counters, Light, LivePlannedCommands, RecentRows, Snapshot, worst
from crossfeed.model.forecast import forecast
from crossfeed.serving.history import History
from crossfeed.studio.moments import SHOWN_ROWS, IntervalRecord, TableMoments

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
