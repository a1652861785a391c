"""Plans as clients ask for them, as the commands of every row to come."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from crossfeed.errors import ConfigError, TableError
from crossfeed.programs.limits import MotionLimits
from crossfeed.serving.history import History
from crossfeed.serving.override_rows import REMARK, under_overrides
from crossfeed.serving.plan import FOLLOWED, PlannedCommands, read_plans
from crossfeed.serving.plan_program import Overrides, plan_program
from crossfeed.serving.plan_table import plan_columns
from crossfeed.studio.refusal import RefusalError
from crossfeed.studio.requests import PlanRequest
from crossfeed.studio.settings import Limits
from crossfeed.studio.uploads import Uploads

HELD_ROWS = 16  # at least; a model that looks further ahead gets more


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
    for number, one in enumerate(asked, start=1):
        plan = _plan(one, history, uploads, motion, max(longest, HELD_ROWS), steps)
        name = one.name or plan.name
        taken = [known.name for known in plans]
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
