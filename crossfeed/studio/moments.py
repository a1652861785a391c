"""The moment a forecast starts from: a row of the served table, or rows a client sent."""

from functools import lru_cache, partial
from typing import Any

import numpy as np

from crossfeed.errors import TableError
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.logs.align import align
from crossfeed.logs.table import Group, Table
from crossfeed.model.forecast import read_history as read_rows_sent
from crossfeed.scenarios.history import History, read_history
from crossfeed.show.tables import named
from crossfeed.studio.requests import MomentRequest

_REMEMBERED = 128


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
