"""Plans from NC programs: parsed, planned within the machine's limits, and averaged over the rows of the history."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crossfeed.errors import ProgramError, SchemaError
from crossfeed.programs.blocks import Program
from crossfeed.programs.bundled import program_path
from crossfeed.programs.limits import MotionLimits
from crossfeed.programs.parse import read_program
from crossfeed.programs.plan import plan
from crossfeed.programs.trajectory import COMMAND_UNITS
from crossfeed.schema import Schema
from crossfeed.show.tables import plural

STILL = ("MSG", "CYCLE832")  # calls that move nothing


@dataclass(frozen=True)
class Overrides:
    """The three knobs in per cent, as they stand on the panel."""

    feed: float = 100.0
    rapid: float = 100.0
    spindle: float = 100.0

    def __post_init__(self) -> None:
        for knob in _KNOBS:
            value = getattr(self, knob)
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
            knob, _, value = part.partition("=")
            try:
                changes[_knob(knob.strip())] = float(value.strip().removesuffix("%"))
            except ValueError as error:
                raise ProgramError(
                    f"The override '{part}' cannot be read.", expected="a knob and per cent, such as feed=80"
                ) from error
        return replace(self, **changes)


_KNOBS = tuple(Overrides.__dataclass_fields__)


def _knob(name: str) -> str:
    if name not in _KNOBS:
        raise ProgramError(f"There is no override '{name}'.", expected=f"one of {', '.join(_KNOBS)}")
    return name


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
