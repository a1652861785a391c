"""The running program as the plan: where the control is in its NC file, and what that file asks for next."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np

from crossfeed.errors import CrossfeedError
from crossfeed.live.snapshot import LivePlannedCommands
from crossfeed.live.source import LINE, OVERRIDES, Value
from crossfeed.logs.declaration import PROGRAM
from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.parse import read_program
from crossfeed.programs.plan import plan
from crossfeed.programs.trajectory import COMMAND_UNITS, CommandTrace
from crossfeed.schema import Schema

_FINE_HZ = 10.0  # at least so often, and a whole number of times in a row
_LONGEST = 3600  # rows of a program that are looked ahead
_STEP = 5.0  # per cent: overrides are planned in these steps


class _NotFollowedError(Exception):
    """Why the last command has to stand for the program."""


class PlanFollower(Protocol):
    """Says which commands the next rows will have."""

    def plan(
        self, states: Mapping[str, Value], now: float, last: Mapping[str, float | None], steps: int
    ) -> LivePlannedCommands:
        """The plan after the row that ended `now` with the commands `last`; `states` is what the control tells."""


@dataclass(slots=True)
class ProgramFollower(PlanFollower):
    """Finds the active program in a folder and follows the control along its lines."""

    folder: Path | None
    schema: Schema
    period: float
    limits: MotionLimits
    _seen: tuple[str, int] = ("", -1)
    _since: float = 0.0

    def plan(
        self, states: Mapping[str, Value], now: float, last: Mapping[str, float | None], steps: int
    ) -> LivePlannedCommands:
        """The commands of the next rows: those of the program where it can be followed, else the last one held."""
        try:
            return self._program_plan(states, now, steps)
        except _NotFollowedError as reason:
            commands = {name: (float(last[name] or 0.0),) * steps for name in self.schema.command_names}
            return LivePlannedCommands("held", f"the last command is held: {reason}", commands)

    @property
    def _width(self) -> int:
        """Bins of a planned program in one row."""
        return math.ceil(self.period * _FINE_HZ - 1e-9)

    def _program_plan(self, states: Mapping[str, Value], now: float, steps: int) -> LivePlannedCommands:
        program, line = states.get(PROGRAM), states.get(LINE)
        if self.folder is None:
            raise _NotFollowedError("no folder with NC programs was given (--programs)")
        if not program:
            raise _NotFollowedError("the control runs no program")
        if not isinstance(line, float):
            raise _NotFollowedError("the control does not tell the line it executes")
        missing = [name for name in self.schema.command_names if name not in COMMAND_UNITS]
        if missing:
            raise _NotFollowedError(f"a program does not tell {', '.join(missing)}")
        path = _find(self.folder, str(program))
        if path is None:
            raise _NotFollowedError(f"there is no file {program} in {self.folder.name}")
        overrides = tuple(_rounded(states.get(name)) for name in OVERRIDES.values())
        try:
            trace = _planned(path, path.stat().st_mtime_ns, overrides, self.limits, self._width / self.period)
        except (CrossfeedError, OSError) as error:
            raise _NotFollowedError(f"{path.name} cannot be planned: {error}") from error
        number = int(line)
        commands, following = self._commands_ahead(trace, path.name, number, now, steps)
        feed, rapid, spindle = overrides
        knobs = f"feed {feed:g} %, rapid {rapid:g} %, spindle {spindle:g} %"
        sentence = f"the running program {path.name} from line {number} on, at {knobs}"
        return LivePlannedCommands("program", sentence, commands, following)

    def _commands_ahead(
        self, trace: CommandTrace, name: str, line: int, now: float, steps: int
    ) -> tuple[dict[str, tuple[float, ...]], dict[str, tuple[float, ...]]]:
        """The commands of the next rows, and of those after them to the end of the program."""
        if self._seen != (name, line):
            self._seen, self._since = (name, line), now
        bins = np.flatnonzero(trace.line == line)
        if not len(bins):
            bins = np.flatnonzero(trace.line > line)[:1]
            if not len(bins):
                raise _NotFollowedError(f"line {line} of {name} moves nothing, and nothing follows")
        # A line may last for many bins, or be met again in a loop: the stay on it says how far along it is.
        stay = round((now - self._since) * trace.rate)
        begin, width = int(bins[min(stay, len(bins) - 1)]), self._width
        rows = max(steps, min(_LONGEST, -(-(len(trace.line) - begin) // width)))
        fine = trace.commanded(self.schema.commands)[begin : begin + rows * width]
        fine = np.pad(fine, ((0, rows * width - len(fine)), (0, 0)))
        means = fine.reshape(rows, width, -1).mean(axis=1)
        values = {name: tuple(column.tolist()) for name, column in zip(self.schema.command_names, means.T, strict=True)}
        return {name: row[:steps] for name, row in values.items()}, {name: row[steps:] for name, row in values.items()}


def _find(folder: Path, program: str) -> Path | None:
    """A file of that name, with or without its ending, whatever folder of the control stands before it."""
    plain = program.replace("\\", "/").rpartition("/")[2].lower()
    if not plain or not folder.is_dir():
        return None
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    exact = [path for path in files if path.name.lower() == plain]
    stems = [path for path in files if path.stem.lower() == plain.partition(".")[0]]
    return next(iter(exact or stems), None)


def _rounded(value: Value) -> float:
    percent = float(value) if isinstance(value, float) and np.isfinite(value) else 100.0
    return max(_STEP, round(percent / _STEP) * _STEP)


@lru_cache(maxsize=32)
def _planned(
    path: Path,
    changed: int,  # noqa: ARG001 (a changed file is another plan)
    overrides: tuple[float, ...],
    limits: MotionLimits,
    rate: float,
) -> CommandTrace:
    feed, rapid, spindle = (value / 100.0 for value in overrides)
    trajectory = plan(read_program(path), limits, feed_override=feed, rapid_override=rapid, spindle_override=spindle)
    return trajectory.sample(rate, "mean")
