"""Which commands the forecast assumes for the next seconds."""

from collections.abc import Mapping

import numpy as np

from crossfeed.live.snapshot import PlanUsed
from crossfeed.schema import Schema


def held_plan(last: Mapping[str, float | None], schema: Schema, steps: int, reason: str = "") -> PlanUsed:
    """The last command goes on."""
    sentence = "the last command is held" + (f": {reason}" if reason else "")
    commands = {name: (float(last[name] or 0.0),) * steps for name in schema.command_names}
    return PlanUsed("held", sentence, commands)


def as_array(plan: PlanUsed, schema: Schema) -> np.ndarray:
    """The planned commands (T, A) in schema order."""
    return np.array([plan.commands[name] for name in schema.command_names]).T
