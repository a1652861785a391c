"""A plan: the commands of every row to come, from a frame, a file, an NC program, the log itself or an array.

T planned rows, A commands in the order and units of the model's schema.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.errors import TableError
from crossfeed.ingest.frames import read_header, to_polars
from crossfeed.ingest.table import Table
from crossfeed.programs.bundled import PREFIX
from crossfeed.programs.limits import MotionLimits
from crossfeed.schema import conversion
from crossfeed.serving.history import ON_THE_CLOCK, History
from crossfeed.serving.plan_program import Overrides, plan_program
from crossfeed.serving.plan_table import TABLE_ENDINGS, columns_of_file, plan_columns

FOLLOWED = "table"  # the plan that is no file: the commands that really followed in the log


@dataclass(frozen=True, eq=False)
class PlannedCommands:
    """Commands to come; `truth` holds what the sensors did under them where that is known, (T, C)."""

    name: str
    origin: str  # "table", "program", "file" or "array"
    file: str | None
    commands: np.ndarray
    warnings: tuple[str, ...] = ()
    truth: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.commands)

    def first(self, steps: int) -> "PlannedCommands":
        """The beginning of the plan."""
        truth = None if self.truth is None else self.truth[:steps]
        return replace(self, commands=self.commands[:steps], truth=truth)


def read_plans(
    asked: Sequence[Any] | Mapping[str, Any],
    history: History,
    overrides: Overrides | None = None,
    limits: MotionLimits | None = None,
    seconds: float | None = None,
) -> tuple[PlannedCommands, ...]:
    """Read every plan; in a mapping the keys are their names, otherwise files are called by their names."""
    if not asked:
        raise TableError("No plan was given.", expected="at least one file, program or array of commands")
    pairs = list(asked.items()) if isinstance(asked, Mapping) else [(None, source) for source in asked]
    plans: list[PlannedCommands] = []
    for number, (name, source) in enumerate(pairs, start=1):
        plan = _read(source, history, overrides or Overrides(), limits or MotionLimits(), number)
        own = str(name) if name is not None else plan.name
        taken = [known.name for known in plans]
        unique = own if own not in taken else f"{own} ({number})"
        plans.append(replace(plan, name=unique))
    if seconds is not None:
        steps = round(seconds / history.period)
        if steps < 1:
            raise TableError(f"A forecast of {seconds:g} s has no row.", expected=f"{history.period:g} s or more")
        plans = [plan.first(steps) for plan in plans]
    return tuple(plans)


def _read(source: Any, history: History, overrides: Overrides, limits: MotionLimits, number: int) -> PlannedCommands:
    schema, period = history.schema, history.period
    if isinstance(source, PlannedCommands):
        return source
    if not isinstance(source, str | Path):
        return PlannedCommands(
            f"plan {number}", "array", None, plan_columns(_columns(source, history), schema, period, "plan")
        )
    text = str(source)
    if text == FOLLOWED:
        return _followed(history)
    path, found, own = text.rpartition("@")
    path = path if found and "=" in own else text
    ending = Path(path).suffix.lower()
    if path != text and (ending in TABLE_ENDINGS or path == FOLLOWED):
        raise TableError(
            f"'{text}' asks for overrides on a table of commands.",
            expected="overrides with an NC program; a table holds the commands as they will be",
            remedy="Write the changed commands to a CSV in their columns, with a row for each time, and name it.",
        )
    if ending in TABLE_ENDINGS:
        return PlannedCommands(
            Path(path).name, "file", Path(path).name, plan_columns(columns_of_file(path), schema, period, path)
        )
    overrides = overrides.updated(own) if path != text else overrides
    commands, remarks = plan_program(path, schema, period, overrides, limits, unsigned=history.command_low)
    name = path.removeprefix(PREFIX) if path.startswith(PREFIX) else Path(path).name
    shown = f"{name}@{own}" if path != text else name
    return PlannedCommands(shown, "program", name, commands, remarks)


def _columns(source: Any, history: History) -> dict[str, Any]:
    """Named columns of a frame or table whose clock fits the history; a bare array must hold the commands in order."""
    if isinstance(source, np.ndarray):
        names = history.schema.command_names
        if source.ndim != 2 or source.shape[1] != len(names):
            raise TableError(
                f"A plan is an array of the shape {source.shape}.",
                expected=f"(rows, {len(names)}), columns {', '.join(names)}",
            )
        return dict(zip(names, source.T))
    rows = source.to_polars() if isinstance(source, Table) else to_polars(source, "plan")
    named = {read_header(column).name: column for column in rows.columns}
    if "session" in named and rows[named["session"]].n_unique() > 1:
        raise TableError(
            f"The plan holds {rows[named['session']].n_unique()} sessions.",
            expected="the rows of one plan, in order",
            remedy="Keep the rows of one session.",
        )
    columns: dict[str, Any] = {column: rows[column] for column in rows.columns}
    if "time" not in named:
        return columns
    column, stamps = named["time"], rows[named["time"]]
    if stamps.dtype.is_temporal():
        seconds = stamps.dt.timestamp("us") / 1e6
        columns[column] = seconds = seconds - (seconds[0] or 0.0)
    elif stamps.dtype.is_numeric():
        seconds = stamps * conversion(read_header(column).unit or "s", "s").scale
    else:
        raise TableError(f"The column '{column}' of the plan holds {stamps.dtype}.", expected="seconds, or time stamps")
    _check_begin(seconds[0], history)
    return columns


def _check_begin(begin: float | None, history: History) -> None:
    """A plan counts from its own beginning, or goes on where the history ends; anything between is a mistake."""
    period, now = history.period, history.clock
    expected = (0.0, period) if now is None else (0.0, period, now + period)
    if begin is None or any(abs(begin - start) <= ON_THE_CLOCK * period for start in expected):
        return
    after = "" if now is None else f"from {now + period:,.6g} s on, or one "
    raise TableError(
        f"The plan begins at {begin:,.6g} s, but the history ends at {now or 0.0:,.6g} s.",
        expected=f"a plan {after}that counts from 0 or {period:g} s",
        remedy="Take the rows that follow the history, or leave the time out.",
    )


def _followed(history: History) -> PlannedCommands:
    """The commands that really followed, up to the end of the session or the first gap in them."""
    known = np.isfinite(history.following_commands).all(axis=1)
    rows = len(known) if known.all() else int(np.argmin(known))
    if not rows:
        raise TableError(
            f"No commands follow {history.title}, so '{FOLLOWED}' is no plan here.",
            expected="a moment before the end of a session",
            remedy="Name an earlier moment with --at.",
        )
    return PlannedCommands(
        FOLLOWED, "table", history.file, history.following_commands[:rows], (), history.following_sensors[:rows]
    )
