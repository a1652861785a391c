"""What speaks against trusting a forecast: another machine, a plan unlike what was learned."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from crossfeed.ingest.align import missed_commands
from crossfeed.model.interface import Plan
from crossfeed.model.world_model import WorldModel
from crossfeed.serving.history import History
from crossfeed.serving.plan import PlannedCommands
from crossfeed.serving.rollout import command_rows, sensor_rows
from crossfeed.show.tables import named, significant
from crossfeed.training.measure import WEAK_COMMAND_USE

MEASURED_STEPS = 256  # rows for which benchmarks/rollout.py has compared forecasts with the truth
_ROUNDING = 1e-3  # of the span: ranges are kept in single precision


def warnings_about(history: History, provenance: Mapping[str, Any]) -> list[str]:
    """What a reader must know about the model and the machine."""
    warnings = []
    ratio = provenance.get("shuffled_command_ratio")
    if ratio is not None and ratio < WEAK_COMMAND_USE:
        warnings.append(
            f"in training this model hardly used the commands (shuffled plans cost a factor of {ratio:.3f} in RMSE): "
            "it cannot tell plans apart, and equal forecasts do not mean equal plans"
        )
    trained = [str(machine) for machine in provenance.get("machines", ())]
    adapted = [str(machine) for machine in provenance.get("adapted", {}).get("to", {}).get("machines", ())]
    if trained and history.group.machine not in (*trained, *adapted):
        warnings.append(
            f"the model was trained on {named((*trained, *adapted))} and never saw {history.group.machine}: judge "
            "it there with crossfeed evaluate, or adapt it with crossfeed adapt"
        )
    missed = missed_commands(history.idle, provenance.get("command_range", {}))
    warnings += [f"the history has no {name}; it is taken as {value:g} throughout" for name, value in missed.items()]
    return warnings


def warnings_of(plan: PlannedCommands, history: History, provenance: Mapping[str, Any]) -> list[str]:
    """What a reader must know before trusting the forecast of this plan."""
    ranges = provenance.get("command_range") or {}
    warnings, unsigned = list(plan.warnings), list[str]()
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
                warnings.append(
                    f"{channel.name} {side} {significant(value)} {channel.unit}, but in {whose} it lies between {ends} "
                    f"{channel.unit}: {share} outside, where forecasts are guesses"
                )
        if channel.quantity == "feed" and high > 0.0 and low >= -_ROUNDING * span and least < -_ROUNDING * span:
            unsigned.append(channel.name)
    if unsigned:
        warnings.append(
            f"the plan moves {', '.join(unsigned)} backwards as well, and the rows that the model knows hold no "
            "negative feed: if those logs state feeds without their direction, plans must do so too"
        )
    if len(plan) > MEASURED_STEPS:
        warnings.append(
            f"the plan has {len(plan)} rows; how far forecasts can be trusted was measured up to {MEASURED_STEPS} rows"
        )
    return warnings


def doubt_about(model: WorldModel, history: History, plan: PlannedCommands) -> list[str]:
    """A warning when the members disagree about this plan more than about 99 in 100 windows of the source.

    Where the members of an ensemble disagree, none of them can be relied on.
    """
    longest, context = model.horizons[-1], model.config.context
    if model.members == 1 or len(plan) < longest:
        return []
    apart, usual = disagreement(model, history, plan.commands[:longest], context), float(model.disagreement_threshold)
    if not apart > usual > 0.0:
        return []
    return [
        f"the {model.members} members of the model disagree about this plan by {apart:.2g} standard deviations; "
        f"in 99 of 100 windows of the source it was less than {usual:.2g}: it is unlike what was learned"
    ]


@torch.inference_mode()
def disagreement(model: WorldModel, history: History, commands: np.ndarray, context: int) -> float:
    """How far apart the members are, on average over present sensors and horizons, in z-units."""
    x_1KC = sensor_rows(model, history.sensors[None, -context:])
    past_1KA, planned_1TA = (command_rows(model, part[None]) for part in (history.commands[-context:], commands))
    encoded = model.eval().encode(x_1KC, x_1KC.isfinite(), past_1KA)
    apart_1HC = model.decode(encoded, Plan.under(planned_1TA, model.horizons)).disagreement
    assert apart_1HC is not None
    return float(apart_1HC[:, :, x_1KC[0].isfinite().any(0)].mean())
