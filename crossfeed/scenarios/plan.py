"""A plan: the commands of every row to come, from a frame, a file, an NC program, the log itself or an array.

NC programs are planned within the machine's limits and averaged over the rows of the history; logged commands under
other overrides drive the same path in more or less time. T planned rows, S rows of a changed plan, A commands in the
order and units of the model's schema.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.errors import ProgramError, SchemaError, TableError
from crossfeed.programs.blocks import Program
from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.parse import PREFIX, program_path, read_program
from crossfeed.programs.plan import plan
from crossfeed.programs.trajectory import COMMAND_UNITS
from crossfeed.scenarios.history import History
from crossfeed.scenarios.plan_table import TABLE_ENDINGS, columns_of_file, columns_of_source, plan_columns
from crossfeed.schema import Schema
from crossfeed.show.tables import plural

STILL = ("MSG", "CYCLE832")  # calls that move nothing
REMARK = "feeds of logged rows are scaled as they stand; only an NC program is planned anew, with its accelerations"
FOLLOWED = "table"  # the plan that is no file: the commands that really followed in the log


@dataclass(frozen=True)
class Overrides:
    """The three knobs in per cent, as they stand on the panel."""

    feed: float = 100.0
    rapid: float = 100.0
    spindle: float = 100.0

    def __post_init__(self) -> None:
        for knob, value in vars(self).items():
            if not (math.isfinite(value) and 1.0 <= value <= 1000.0):
                raise ProgramError(
                    f"A {knob} override of {value:g} % was asked for.",
                    expected="1 to 1000, in per cent",
                    remedy=f"For a factor of {value:g} write {100.0 * value:g}." if 0.0 < value < 1.0 else "",
                )

    def updated(self, text: str) -> "Overrides":
        """With what stands behind the @ of a plan: `feed=80,spindle=90`."""
        changes: dict[str, Any] = {}
        for part in text.split(","):
            knob, _, value = (word.strip() for word in part.partition("="))
            if knob not in vars(self):
                raise ProgramError(f"There is no override '{knob}'.", expected=f"one of {', '.join(vars(self))}")
            try:
                changes[knob] = float(value.removesuffix("%"))
            except ValueError as error:
                raise ProgramError(
                    f"The override '{part}' cannot be read.", expected="a knob and per cent, such as feed=80"
                ) from error
        return replace(self, **changes)


def plan_program(
    source: str | Program,
    schema: Schema,
    period: float,
    overrides: Overrides,
    limits: MotionLimits,
    unsigned: np.ndarray,
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Mean commands (T, A) of each period, and remarks about what was unclear; `source` is a file or a read program.

    `unsigned` holds the lowest value the machine's log has of each command: where that is not negative, the log
    counts speeds without sign, and so does the plan.
    """
    missing = [name for name in schema.command_names if name not in COMMAND_UNITS]
    if missing:
        raise SchemaError(
            f"An NC program does not tell the commands {', '.join(missing)} of the model.",
            expected=f"a model whose commands are among {', '.join(COMMAND_UNITS)}",
            remedy="Give the plan as a CSV with a column for each command.",
        )
    program = source if isinstance(source, Program) else read_program(program_path(source))
    trajectory = plan(
        program,
        limits,
        feed_override=overrides.feed / 100.0,
        rapid_override=overrides.rapid / 100.0,
        spindle_override=overrides.spindle / 100.0,
    )
    commands = trajectory.sample(1.0 / period, "mean").commanded(schema.commands)
    remarks = [f"line {finding.line}: {finding.reason}" for finding in trajectory.remarks]
    errors = [finding for finding in program.findings if finding.severity == "error"]
    if errors:
        remarks.append(
            f"{plural(len(errors), 'line')} not understood, the first is line {errors[0].line} ({errors[0].reason}); "
            "crossfeed program lists them"
        )
    moving = {name: count for name, count in program.skipped_calls.items() if name not in STILL}
    if moving:
        calls = ", ".join(f"{name} x{count}" for name, count in moving.items())
        remarks.append(f"calls were skipped, so the plan is shorter than the program may be: {calls}")
    for column, channel in enumerate(schema.commands):
        if channel.name == "spindle_speed" and unsigned[column] >= 0.0 and commands[:, column].min() < 0.0:
            commands[:, column] = np.abs(commands[:, column])
            remarks.append("M4 turns the spindle backwards; the log counts speeds without sign, so the plan does too")
    return commands, tuple(remarks)


def under_overrides(commands_TA: np.ndarray, schema: Schema, overrides: Overrides) -> np.ndarray:
    """The rows (S, A) that drive the same path: feeds times the override for as much longer; rows at rest keep theirs.

    Spindle speeds are scaled where they stand. Each new row is the mean of the piece of the old rows that it covers;
    what is left of the last row after the end of the path stands still.
    """
    feed, spindle = overrides.feed / 100.0, overrides.spindle / 100.0
    is_feed = np.array([channel.quantity == "feed" for channel in schema.commands])
    is_spindle = np.array([channel.quantity == "rotational speed" for channel in schema.commands])
    scaled_TA = commands_TA * np.where(is_feed, feed, np.where(is_spindle, spindle, 1.0))
    lasts_T = np.where((commands_TA[:, is_feed] != 0.0).any(axis=1), 1.0 / feed, 1.0)  # in rows of the new plan
    whole = max(int(np.ceil(lasts_T.sum() - 1e-9)), 1)
    at_rest_1A = np.where(is_feed, 0.0, scaled_TA[-1])[None]
    scaled_TA = np.concatenate([scaled_TA, at_rest_1A])
    lasts_T = np.append(lasts_T, max(whole - lasts_T.sum(), 0.0))
    ends = np.concatenate([[0.0], np.cumsum(lasts_T)])
    done = np.concatenate([np.zeros((1, scaled_TA.shape[1])), np.cumsum(scaled_TA * lasts_T[:, None], axis=0)])
    at_edges = np.stack([np.interp(np.arange(whole + 1), ends, column) for column in done.T], axis=1)
    return np.asarray(np.diff(at_edges, axis=0))


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
        wanted = str(name) if name is not None else plan.name
        taken = [earlier.name for earlier in plans]
        unique = wanted if wanted not in taken else f"{wanted} ({number})"
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
        rows = plan_columns(columns_of_source(source, history), schema, period, "plan")
        return PlannedCommands(f"plan {number}", "array", None, rows)
    text = str(source)
    if text == FOLLOWED:
        return _followed(history)
    path, at_sign, knobs = text.rpartition("@")
    path = path if at_sign and "=" in knobs else text
    ending = Path(path).suffix.lower()
    if path != text and (ending in TABLE_ENDINGS or path == FOLLOWED):
        raise TableError(
            f"'{text}' asks for overrides on a table of commands.",
            expected="overrides with an NC program; a table holds the commands as they will be",
            remedy="Write the changed commands to a CSV in their columns, with a row for each time, and name it.",
        )
    if ending in TABLE_ENDINGS:
        rows, name = plan_columns(columns_of_file(path), schema, period, path), Path(path).name
        return PlannedCommands(name, "file", name, rows)
    overrides = overrides.updated(knobs) if path != text else overrides
    commands, remarks = plan_program(path, schema, period, overrides, limits, unsigned=history.command_low)
    name = path.removeprefix(PREFIX) if path.startswith(PREFIX) else Path(path).name
    shown = f"{name}@{knobs}" if path != text else name
    return PlannedCommands(shown, "program", name, commands, remarks)


def _followed(history: History) -> PlannedCommands:
    """The commands that really followed, up to the end of the session or the first gap in them."""
    commanded = np.isfinite(history.following_commands).all(axis=1)
    rows = len(commanded) if commanded.all() else int(np.argmin(commanded))
    if not rows:
        raise TableError(
            f"No commands follow {history.title}, so '{FOLLOWED}' is no plan here.",
            expected="a moment before the end of a session",
            remedy="Name an earlier moment with --at.",
        )
    return PlannedCommands(
        FOLLOWED, "table", history.file, history.following_commands[:rows], (), history.following_sensors[:rows]
    )
