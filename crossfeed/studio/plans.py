"""Plans as clients ask for them, as the commands of every row to come; uploads are kept for a while."""

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.errors import ConfigError, CrossfeedError, ProgramError, TableError
from crossfeed.files import temporary_file
from crossfeed.programs.blocks import Program
from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.parse import PREFIX, bundled_programs, parse_program
from crossfeed.scenarios.history import History
from crossfeed.scenarios.plan import (
    FOLLOWED,
    REMARK,
    Overrides,
    PlannedCommands,
    plan_program,
    read_plans,
    under_overrides,
)
from crossfeed.scenarios.plan_table import columns_of_file, plan_columns
from crossfeed.studio.requests import PlanRequest, RefusalError
from crossfeed.studio.settings import Limits

_LONGEST_NAME = 60
HELD_ROWS = 16  # at least; a model that looks further ahead gets more


@dataclass(frozen=True)
class Upload:
    """One upload: an NC program, or the columns of a CSV with commands."""

    id: str
    name: str
    program: Program | None = None
    columns: dict[str, Any] | None = None

    def content(self) -> dict[str, Any]:
        """The upload as the client sees it."""
        if self.program is None:
            rows = len(next(iter(self.columns.values()))) if self.columns else 0
            return {"id": self.id, "name": self.name, "kind": "table", "rows": rows, "findings": []}
        findings = [
            {"line": finding.line, "severity": finding.severity, "reason": finding.reason}
            for finding in self.program.findings[:20]
        ]
        blocks = len(self.program.blocks)
        return {"id": self.id, "name": self.name, "kind": "program", "blocks": blocks, "findings": findings}


class Uploads:
    """The last uploads; the oldest makes room."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._uploads: OrderedDict[str, Upload] = OrderedDict()

    def read(self, name: str, content: bytes) -> Upload:
        """Read an upload; its name is shown and never opened."""
        shown = _shown(name)
        key = secrets.token_hex(8)
        if shown.lower().endswith((".parquet", ".pq")):
            raise RefusalError(415, f"{shown} is a Parquet file.", expected="an NC program, or a CSV with commands")
        if shown.lower().endswith(".csv"):
            return Upload(key, shown, columns=_table(content, shown))
        if b"\0" in content:
            raise ProgramError(f"{shown} is a binary file.", expected="NC code as plain text")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
        program = parse_program(text, Path(shown).stem)
        if not program.blocks:
            raise ProgramError(f"{shown} moves nothing.", expected="NC code with at least one motion, or a .csv")
        return Upload(key, shown, program=program)

    def put(self, kept: Upload) -> None:
        """Keep an upload."""
        self._uploads[kept.id] = kept
        while len(self._uploads) > self.most:
            self._uploads.popitem(last=False)

    def take(self, id: str) -> Upload:
        """An upload by its id, or a program that comes with crossfeed."""
        if id.startswith(PREFIX):
            programs = bundled_programs()
            name = id.removeprefix(PREFIX)
            if name in programs:
                return Upload(id, name, program=parse_program(programs[name].read_text(encoding="utf-8"), name))
        elif id in self._uploads:
            self._uploads.move_to_end(id)
            return self._uploads[id]
        raise RefusalError(
            404,
            f"There is no program '{id}'.",
            expected="the id that an upload gave, or " + ", ".join(PREFIX + name for name in bundled_programs()),
            remedy="Upload it again: only the last uploads are kept.",
        )


def _table(content: bytes, shown: str) -> dict[str, Any]:
    """The columns of a CSV, read through a file of our own that is gone afterwards."""
    with temporary_file(content, "plan.csv") as path:
        try:
            return columns_of_file(path)
        except CrossfeedError as error:
            problem = error.found.replace(str(path), shown)
            raise type(error)(problem, expected=error.expected, remedy=error.remedy) from error


def _shown(name: str) -> str:
    """The last part of a client's name, in printable letters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(letter for letter in last if letter.isprintable()).strip()
    return kept[-_LONGEST_NAME:] or "program"


def make_plans(
    asked: Sequence[PlanRequest],
    history: History,
    uploads: Uploads,
    limits: Limits,
    motion: MotionLimits,
    longest: int,
    seconds: float | None = None,
) -> list[PlannedCommands]:
    """One plan for each that was asked for, under names that differ.

    `seconds` cuts rows before the overrides change them, so that a slower plan does the same work in more time; an NC
    program is planned under its overrides and cut afterwards.
    """
    if len(asked) > limits.plans:
        raise RefusalError(422, f"{len(asked)} plans were sent.", expected=f"at most {limits.plans} side by side")
    plans: list[PlannedCommands] = []
    steps = None if seconds is None else max(1, round(seconds / history.period))
    for number, request in enumerate(asked, start=1):
        plan = _plan(request, history, uploads, motion, max(longest, HELD_ROWS), steps)
        name = request.name or plan.name
        taken = [earlier.name for earlier in plans]
        plans.append(replace(plan, name=name if name not in taken else f"{name} ({number})"))
    long = next((plan for plan in plans if len(plan) > limits.rows), None)
    if long is not None:
        raise RefusalError(
            422,
            f"The plan {long.name} has {len(long):,} rows.",
            expected=f"at most {limits.rows:,}",
            remedy=f"Ask for its beginning: seconds of {limits.rows * history.period:g} or less.",
        )
    return plans


def _plan(
    asked: PlanRequest, history: History, uploads: Uploads, motion: MotionLimits, held_rows: int, steps: int | None
) -> PlannedCommands:
    overrides = Overrides(asked.feed, asked.rapid, asked.spindle)
    suffix = _suffix(overrides)
    if asked.kind == "program":
        if asked.program is None:
            raise ConfigError("A plan of the kind 'program' names no program.", expected="the id of an upload")
        kept = uploads.take(asked.program)
        if kept.program is not None:
            commands, remarks = plan_program(
                kept.program, history.schema, history.period, overrides, motion, history.command_low
            )
            plan = PlannedCommands(kept.name + suffix, "program", kept.name, commands, remarks)
            return plan if steps is None else plan.first(steps)
        rows = plan_columns(kept.columns or {}, history.schema, history.period, kept.name)
        plan = PlannedCommands(kept.name, "file", kept.name, rows)
    elif asked.kind == "commands":
        if asked.commands is None:
            raise ConfigError("A plan of the kind 'commands' has no rows.", expected="a list for each command")
        rows = plan_columns(asked.commands, history.schema, history.period, asked.name or "sent with the request")
        plan = PlannedCommands("sent rows", "array", None, rows)
    elif asked.kind == "followed" and len(history.following_commands):
        plan = replace(read_plans([FOLLOWED], history)[0], name="as planned")
    else:
        rows = np.repeat(history.commands[-1:], held_rows, axis=0)
        if not np.isfinite(rows).all():
            raise TableError("The last row lacks a command, so it cannot be held.", expected="a value of every command")
        plan = PlannedCommands("the last command, held", "array", None, rows)
    plan = plan if steps is None else plan.first(steps)
    if not suffix:
        return plan
    commands = under_overrides(plan.commands, history.schema, overrides)
    # What really followed is known only where nothing was changed.
    return replace(plan, name=plan.name + suffix, commands=commands, truth=None, warnings=(*plan.warnings, REMARK))


def _suffix(overrides: Overrides) -> str:
    knobs = {"feed": overrides.feed, "rapid": overrides.rapid, "spindle": overrides.spindle}
    changed = [f"{name} {value:g} %" for name, value in knobs.items() if value != 100.0]
    return f", {', '.join(changed)}" if changed else ""
