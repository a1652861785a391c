"""What speaks against trusting a forecast: another machine, or a plan that asks for more than was ever seen."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from crossfeed.grid import named, significant
from crossfeed.serving.history import History
from crossfeed.serving.plan import PlannedCommands
from crossfeed.training.measure import WEAK_COMMAND_USE

MEASURED_STEPS = 256  # rows for which benchmarks/rollout.py has compared forecasts with the truth
_ROUNDING = 1e-3  # of the span: ranges are kept in single precision


def warnings_about(history: History, provenance: Mapping[str, Any]) -> list[str]:
    """What a reader must know about the model and the machine."""
    found = []
    ratio = provenance.get("shuffled_command_ratio")
    if ratio is not None and ratio < WEAK_COMMAND_USE:
        found.append(
            f"in training this model hardly used the commands (shuffled plans cost a factor of {ratio:.3f} in RMSE): "
            "it cannot tell plans apart, and equal forecasts do not mean equal plans"
        )
    trained = [str(machine) for machine in provenance.get("machines", ())]
    adapted = [str(machine) for machine in provenance.get("adapted", {}).get("to", {}).get("machines", ())]
    if trained and history.group.machine not in (*trained, *adapted):
        found.append(
            f"the model was trained on {named((*trained, *adapted))} and never saw {history.group.machine}: judge "
            "it there with crossfeed evaluate, or adapt it with crossfeed adapt"
        )
    found += [f"the history has no {name}; it is taken as {value:g} throughout" for name, value in history.idle.items()]
    return found


def warnings_of(plan: PlannedCommands, history: History, provenance: Mapping[str, Any]) -> list[str]:
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
            if beyond > _ROUNDING * span:
                share = f"{beyond / span:.0%} of that range" if span > 0.0 else "any distance"
                ends = " and ".join(significant(0.0 if abs(end) < _ROUNDING * span else end) for end in (low, high))
                found.append(
                    f"{channel.name} {side} {significant(value)} {channel.unit}, but in {whose} it lies between {ends} "
                    f"{channel.unit}: {share} outside, where forecasts are guesses"
                )
    if unsigned := _feeds_without_direction(plan, history, ranges):
        found.append(
            f"the plan moves {', '.join(unsigned)} backwards as well, and the rows that the model knows hold no "
            "negative feed: if those logs state feeds without their direction, plans must do so too"
        )
    if len(plan) > MEASURED_STEPS:
        found.append(
            f"the plan has {len(plan)} rows; how far forecasts can be trusted was measured up to {MEASURED_STEPS} rows"
        )
    return found


def _feeds_without_direction(
    plan: PlannedCommands, history: History, ranges: Mapping[str, tuple[float, float]]
) -> list[str]:
    """Feeds that the plan turns around and that were never negative where the model learned."""
    found = []
    for column, channel in enumerate(history.schema.commands):
        known = float(history.command_low[column]), float(history.command_high[column])
        low, high = ranges.get(channel.name, known)
        turned = float(np.min(plan.commands[:, column])) < -_ROUNDING * (high - low)
        if channel.quantity == "feed" and turned and high > 0.0 and low >= -_ROUNDING * (high - low):
            found.append(channel.name)
    return found
