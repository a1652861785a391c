"""The rows before a forecast: one moment of one session of a table, and what really came after it.

K context rows, F following rows, C sensors, A commands; physical units in the model's order of channels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from crossfeed.errors import TableError
from crossfeed.logs.align import align, idle_commands
from crossfeed.logs.table import Group, Table
from crossfeed.model.world_model import WorldModel
from crossfeed.rows import check_plausible
from crossfeed.schema import Schema

ON_THE_CLOCK = 0.01  # periods by which a row may be early or late and still follow the row before it


@dataclass(frozen=True, eq=False)
class History:
    """Everything known at the moment of the forecast, and, kept apart, the rows that followed."""

    schema: Schema
    group: Group
    at: float  # s after the session's first row
    period: float
    sensors: np.ndarray  # (rows, C) up to the moment; NaN where absent
    commands: np.ndarray  # (rows, A)
    following_sensors: np.ndarray  # (F, C), never shown to the model
    following_commands: np.ndarray  # (F, A)
    command_low: np.ndarray  # (A,) over the whole table: what this machine is used to
    command_high: np.ndarray
    fingerprint: str
    file: str | None
    idle: Mapping[str, float] = field(default_factory=dict)  # commands the machine does not have, and their value
    clock: float | None = None  # s, the time that the log itself gives the moment

    @property
    def title(self) -> str:
        """How figures and errors call it."""
        return f"session '{self.group.session}' of {self.group.machine} at {self.at:g} s"

    @property
    def moment(self) -> str:
        """Where a forecast begins, as a figure is headed."""
        return f"{self.group.machine}, session {self.group.session} from {self.at:g} s on"


def read_history(
    table: Table, model: WorldModel, session: str | None = None, at: float | None = None, file: str | None = None
) -> History:
    """Find the moment: the end of the last session, or `at` seconds after the first row of the named one."""
    aligned = align(table, model.schema)
    group = _group(aligned, session)
    time = aligned.time[group.start : group.stop] - aligned.time[group.start]
    now = _row(time, at, group, aligned.period)
    gaps = np.flatnonzero(np.abs(np.diff(time) - aligned.period) > ON_THE_CLOCK * aligned.period)
    first, last = max(gaps[gaps < now] + 1, default=0), min(gaps[gaps >= now], default=len(time) - 1)
    context = model.config.context
    if now + 1 - first < context:
        since = f", {now + 1 - first} of them after the last gap in its clock" if first else ""
        raise TableError(
            f"Session '{group.session}' has {now + 1} rows up to {time[now]:g} s{since}.",
            expected=f"at least {context}, the context of this model",
            remedy=f"Choose a later moment (--at {context * aligned.period:g} or more) or a longer session.",
        )
    sensors, commands = (values[group.start : group.stop] for values in (aligned.sensors, aligned.commands))
    # A sensor without a scale from training says nothing to the model, whatever its values.
    unseen = [name in model.normaliser.unseen for name in model.schema.sensor_names]
    sensors = np.where(unseen, np.nan, sensors)
    past = slice(first, now + 1)
    _check(model, sensors[past][-context:], commands[past][-context:])
    with np.errstate(invalid="ignore"):
        low, high = np.nanmin(aligned.commands, axis=0), np.nanmax(aligned.commands, axis=0)
    return History(
        schema=model.schema,
        group=group,
        at=float(time[now]),
        period=aligned.period,
        sensors=sensors[past],
        commands=commands[past],
        following_sensors=sensors[now + 1 : last + 1],
        following_commands=commands[now + 1 : last + 1],
        command_low=low,
        command_high=high,
        fingerprint=table.fingerprint(),
        file=file,
        idle=idle_commands(table, model.schema),
        clock=float(aligned.time[group.start] + time[now]),
    )


def _group(table: Table, session: str | None) -> Group:
    if session is None:
        return table.groups[-1]
    matching = [group for group in table.groups if session in (group.session, group.key)]
    if len(matching) == 1:
        return matching[0]
    names = [group.key if matching else group.session for group in (matching or table.groups)]
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    raise TableError(
        f"{len(matching)} sessions of the table are called '{session}'."
        if matching
        else f"There is no session '{session}'.",
        expected=f"one of {shown}",
    )


def _row(time: np.ndarray, at: float | None, group: Group, period: float) -> int:
    """The last row at or before the moment."""
    if at is None:
        return len(time) - 1
    if not 0.0 <= at <= time[-1] + period * (1.0 - ON_THE_CLOCK):
        raise TableError(
            f"Session '{group.session}' has no moment at {at:g} s.",
            expected=f"0 to {time[-1]:g} s after its first row",
        )
    return int(np.searchsorted(time, at + ON_THE_CLOCK * period, side="right")) - 1


def _check(model: WorldModel, sensors: np.ndarray, commands: np.ndarray) -> None:
    """Refuse a context that says nothing, lacks commands, or is in other units."""
    names = model.schema.command_names
    if not np.isfinite(sensors).any():
        learned = [name for name in model.schema.sensor_names if name not in model.normaliser.unseen]
        raise TableError(
            "The history shows none of the sensors the model was trained on.",
            expected=f"at least one of {', '.join(learned)}",
            remedy="Check the machine's column mapping, or choose another moment or session.",
        )
    missing = [name for name, bad in zip(names, ~np.isfinite(commands).all(axis=0)) if bad]
    if missing:
        raise TableError(
            f"The history lacks values of {', '.join(missing)} in its last {len(commands)} rows.",
            expected=f"a value of every command ({', '.join(names)}) in every row",
        )
    check_plausible(model.normaliser.transform_sensors(sensors), model.schema.sensor_names, "history")
    check_plausible(model.normaliser.transform_commands(commands), names, "history")
