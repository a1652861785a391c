"""The moment a forecast starts from: a row of the served table, the newest live row, or rows a client sent.

What runs beside the service (a machine, or a table played back) has a newest moment, and is shown live.
"""

from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np

from crossfeed.errors import TableError
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.evaluation.verdict import COVERAGE, COVERAGE_BAD
from crossfeed.files import plain
from crossfeed.live.snapshot import ChannelForecast, Light, Snapshot
from crossfeed.logs.align import align
from crossfeed.logs.table import Group, Table
from crossfeed.model.forecast import read_history as read_rows_sent
from crossfeed.scenarios.history import History, read_history
from crossfeed.show.tables import named
from crossfeed.studio.requests import MomentRequest, RefusalError

ENOUGH = 30  # forecasts that came due before a channel is judged
SHOWN_ROWS = 90
_REMEMBERED = 128


@dataclass(frozen=True, eq=False)
class _Promise:
    row: int
    horizons: tuple[int, ...]
    forecast: Mapping[str, ChannelForecast]


class IntervalRecord:
    """Counts, by sensor, the values inside their 90 % interval; rows are numbered by the machine's clock."""

    def __init__(self) -> None:
        self._open: deque[_Promise] = deque()
        self._inside: Counter[str] = Counter()
        self._due: Counter[str] = Counter()

    def forget(self) -> None:
        """Promises made before a gap cannot come due."""
        self._open.clear()

    def promise(self, row: int, horizons: Sequence[int], forecast: Mapping[str, ChannelForecast]) -> None:
        """A forecast was made after this row."""
        if not self._open or self._open[-1].row < row:
            self._open.append(_Promise(row, tuple(horizons), forecast))

    def observe(self, row: int, values: Mapping[str, float | None]) -> None:
        """A row arrived; those of None were not measured."""
        while self._open and self._open[0].row + self._open[0].horizons[-1] < row:
            self._open.popleft()
        for promise in self._open:
            if row - promise.row not in promise.horizons:
                continue
            slot = promise.horizons.index(row - promise.row)
            for name, interval in promise.forecast.items():
                true = values.get(name)
                if true is not None and true == true:
                    self._due[name] += 1
                    self._inside[name] += int(interval.low[slot] <= true <= interval.high[slot])

    def content(self) -> dict[str, dict[str, Any]]:
        """Forecasts that came due, and the share of them that held."""
        return {name: {"forecasts": due, "inside90": self._inside[name] / due} for name, due in self._due.items()}

    def light(self, name: str) -> Light:
        """What the count says about one sensor."""
        count = self._due[name]
        if count < ENOUGH:
            return Light("amber", f"only {count} forecasts came due so far; {ENOUGH} are needed")
        share = self._inside[name] / count
        sentence = f"{100 * share:.0f} % of {count:,} values fell inside their 90 % interval"
        if share < COVERAGE_BAD:
            return Light("red", f"{sentence}: far too sure of itself")
        if share < COVERAGE[0]:
            return Light("amber", f"{sentence}: somewhat too sure of itself")
        return Light("green", sentence)


class ShownMachine(Protocol):
    """Something with a newest moment."""

    @property
    def history(self) -> History | None:
        """The rows up to the newest moment, when there are enough for a forecast."""

    def snapshot(self) -> Snapshot | None:
        """The newest moment; None before the first."""

    def updates(self) -> AsyncIterator[Snapshot]:
        """Every new moment."""

    def calibration(self) -> dict[str, dict[str, Any]]:
        """How the intervals have held since the start, by sensor."""

    async def run(self) -> None:
        """Go on for as long as the service does."""


def live_content(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as JSON: the last rows, and only sensors that the machine tells."""
    shown = [name for name in snapshot.sensors if name in snapshot.lights]
    recent, plan = snapshot.recent, snapshot.plan
    content = {item.name: getattr(snapshot, item.name) for item in fields(snapshot)} | {
        "clock": snapshot.clock.isoformat(),
        "sensors": shown,
        "recent": {
            "times": recent.times[-SHOWN_ROWS:],
            "sensors": {name: recent.sensors[name][-SHOWN_ROWS:] for name in shown if name in recent.sensors},
            "commands": {name: values[-SHOWN_ROWS:] for name, values in recent.commands.items()},
        },
        "plan": {"kind": plan.kind, "sentence": plan.sentence, "commands": plan.commands},
        "forecast": {name: interval for name, interval in snapshot.forecast.items() if name in shown},
    }
    return dict(plain(content))


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


class Moments:
    """The newest moment of what runs beside the service, or a named moment of the table."""

    def __init__(self, table: TableMoments | None, shown_machine: ShownMachine | None) -> None:
        self.table, self.shown_machine = table, shown_machine

    def at(self, session: str | None, at: float | None) -> History:
        """The rows up to a moment; the newest when none is named."""
        newest = session is None and at is None
        if newest and self.shown_machine is not None and self.shown_machine.history is not None:
            return self.shown_machine.history
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
