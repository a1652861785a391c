"""What speaks against trusting a forecast: another machine, or a plan that asks for more than was ever seen."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from crossfeed.serving.history import History
from crossfeed.serving.plan import Plan

MEASURED_STEPS = 256  # rows for which benchmarks/rollout.py has compared forecasts with the truth
_ROUNDING = 1e-3  # of the span: ranges are kept in single precision


def warnings_about(history: History, provenance: Mapping[str, Any]) -> list[str]:
    """What a reader must know about the machine itself."""
    trained = [str(machine) for machine in provenance.get("machines", ())]
    if not trained or history.group.machine in trained:
        return []
    return [
        f"the model was trained on {', '.join(trained)} and never saw {history.group.machine}: judge it there with "
        "crossfeed evaluate, or adapt it with crossfeed adapt"
    ]


def warnings_of(plan: Plan, history: History, provenance: Mapping[str, Any]) -> list[str]:
    """What a reader must know before trusting the forecast of this plan."""
    ranges = provenance.get("command_range") or {}
    found = list(plan.warnings)
    for column, channel in enumerate(history.schema.commands):
        if channel.name in ranges:
            (low, high), whose = ranges[channel.name], "the rows the model was trained on"
        else:
            low, high = float(history.command_low[column]), float(history.command_high[column])
            whose = "the rows of the history's table"
        span = high - low
        least, most = float(np.min(plan.commands[:, column])), float(np.max(plan.commands[:, column]))
        for value, edge, side in ((most, high, "reaches"), (least, low, "falls to")):
            beyond = value - edge if side == "reaches" else edge - value
            if beyond > _ROUNDING * span and beyond > 0.0:
                share = f"{beyond / span:.0%} of that range" if span > 0.0 else "any distance"
                found.append(
                    f"{channel.name} {side} {value:,.6g} {channel.unit}, but in {whose} it lies between {low:,.6g} and "
                    f"{high:,.6g} {channel.unit}: {share} outside, where forecasts are guesses"
                )
    if len(plan) > MEASURED_STEPS:
        found.append(
            f"the plan has {len(plan)} rows; how far forecasts can be trusted was measured up to {MEASURED_STEPS} rows"
        )
    return found
