"""A table played back as if its machine ran now: history, forecast and calibration so far, row by row."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import numpy as np

from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.ingest.table import Group
from crossfeed.json_file import plain
from crossfeed.model.forecast import Forecast, forecast
from crossfeed.serving.history import History
from crossfeed.studio.interval_record import IntervalRecord
from crossfeed.studio.moments import TableMoments

SHOWN_ROWS = 90
_LEVELS = (0.05, 0.5, 0.95)


class Replay:
    """Walks along the sessions of a table; at the end it begins again."""

    def __init__(self, opened: OpenedModel, moments: TableMoments, speed: float) -> None:
        self.opened, self.moments, self.speed = opened, moments, speed
        context = opened.model.config.context
        self._groups = [group for group in moments.table.groups if len(group) > context + 1]
        self._record = IntervalRecord()
        self._rows = 0
        self._content: dict[str, Any] = {}
        self.history: History | None = None  # the rows up to the moment that is shown
        self._changed = asyncio.Condition()

    def snapshot(self) -> dict[str, Any]:
        """What is known at this moment."""
        return self._content

    async def updates(self) -> AsyncIterator[dict[str, Any]]:
        """Every new moment, for as long as anyone listens; one who is slow misses some."""
        told: dict[str, Any] = {}
        while True:
            async with self._changed:
                while not self._content or self._content is told:
                    await self._changed.wait()
            told = self._content
            yield told

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
        known = len(planned)
        if known < longest:
            last = planned[-1:] if known else history.commands[-1:]
            planned = np.concatenate([planned, np.repeat(last, longest - known, axis=0)])
        context = model.config.context
        rows = np.concatenate([history.sensors[-context:], history.commands[-context:]], axis=1)
        said = forecast(model, rows, planned)
        low, high = (
            {name: values[:, names.index(name)] for name in said.measured} for values in said.quantiles((0.05, 0.95))
        )
        self._record.promise(row, said.horizons, low, high)
        self._rows += 1
        self.history = history
        self._content = self._moment_content(history, said, planned, known)

    def calibration(self) -> dict[str, dict[str, Any]]:
        """Share of the values that fell inside their 90 % interval, by sensor."""
        return self._record.content()

    def _moment_content(self, history: History, said: Forecast, planned: np.ndarray, known: int) -> dict[str, Any]:
        schema, shown = history.schema, slice(-SHOWN_ROWS, None)
        present = {name: schema.sensor_names.index(name) for name in said.measured}
        low, median, high = said.quantiles(_LEVELS)
        count = len(history.sensors[shown])
        lights = {name: self._record.light(name) for name in present}
        sentence = (
            "the commands that really followed in the log"
            if known == len(planned)
            else f"the commands of the log's last {known} rows, then the last one held"
        )
        return dict(
            plain(
                {
                    "machine": history.group.machine,
                    "source": f"replay of {self.moments.file}, session {history.group.session}",
                    "clock": datetime.now(UTC).isoformat(),
                    "row_age": 0.0,
                    "forecast_age": 0.0,
                    "period": history.period,
                    "sensors": list(present),
                    "commands": list(schema.command_names),
                    "units": {channel.name: channel.unit for channel in (*schema.sensors, *schema.commands)},
                    "recent": {
                        "times": (np.arange(1 - count, 1) * history.period + history.at).tolist(),
                        "sensors": {name: history.sensors[shown, column] for name, column in present.items()},
                        "commands": dict(zip(schema.command_names, history.commands[shown].T)),
                    },
                    "plan": {
                        "kind": "followed",
                        "sentence": sentence,
                        "commands": dict(zip(schema.command_names, planned.T)),
                    },
                    "horizons": list(said.horizons),
                    "forecast": {
                        name: {"median": median[:, column], "low": low[:, column], "high": high[:, column]}
                        for name, column in present.items()
                    },
                    "lights": lights,
                    "verdict": _verdict(lights),
                    "counters": {"rows": self._rows},
                    "notices": [],
                }
            )
        )


def _verdict(lights: dict[str, dict[str, str]]) -> dict[str, str]:
    """The worst light, and whose it is."""
    by_colour = {c: [n for n, light in lights.items() if light["colour"] == c] for c in ("red", "amber", "green")}
    if by_colour["red"]:
        return {"colour": "red", "sentence": f"Do not rely on {', '.join(by_colour['red'])} here."}
    if by_colour["amber"]:
        return {"colour": "amber", "sentence": f"With care: {', '.join(by_colour['amber'])}."}
    return {"colour": "green", "sentence": "All intervals have held so far."}
