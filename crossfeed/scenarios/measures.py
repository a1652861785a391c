"""What a process engineer decides by: quantiles, energy, peaks, limits and the chance of passing them, and warnings.

N samples, T rows, C sensors."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import torch

from crossfeed.errors import ConfigError
from crossfeed.logs.align import missed_commands
from crossfeed.model.interface import Plan
from crossfeed.model.world_model import WorldModel
from crossfeed.scenarios.history import History
from crossfeed.scenarios.plan import PlannedCommands
from crossfeed.scenarios.rollout import command_rows, sensor_rows
from crossfeed.schema import Schema, conversion
from crossfeed.show.tables import named, significant
from crossfeed.training.config import WEAK_COMMAND_USE

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
INTERVAL = 0.9
ENERGY_UNIT = "Wh"
MEASURED_STEPS = 256  # rows for which benchmarks/rollout.py has compared forecasts with the truth
_ROUNDING = 1e-3  # of the span: ranges are kept in single precision
_WHOLE = frozenset(("machine", "total", "mains", "supply", "grid"))
_NOT_DRAWN = frozenset(("mechanical", "apparent", "reactive"))
_LIMIT = re.compile(
    r"\s*(?:(?P<tool>[^:\s][^:]*?)\s*:)?\s*(?P<name>[^:<=>\s]+)\s*(?:<=?|=)\s*"
    r"(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>\S.*?)?\s*"
)


@dataclass(frozen=True)
class Estimate:
    """A mean with the interval that holds `level` of the samples."""

    mean: float
    low: float
    high: float
    level: float = INTERVAL

    @classmethod
    def of(cls, values_N: np.ndarray, level: float = INTERVAL) -> "Estimate":
        low, high = sample_quantiles(values_N, (0.5 - level / 2.0, 0.5 + level / 2.0))
        return cls(float(values_N.mean()), float(low), float(high), level)


def sample_quantiles(values_N: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Quantiles over the first axis that a further draw stays below with exactly these probabilities.

    The usual linear rule is too narrow for few samples: it would cover 87 % instead of 90 % with 64 of them.
    """
    return np.asarray(np.quantile(values_N, levels, axis=0, method="weibull"))


def power_sensors(schema: Schema, present: np.ndarray) -> tuple[str, ...]:
    """The present sensors whose powers add up to what is drawn.

    A meter of the whole machine has the drives in it; a drive's mechanical, apparent or reactive power is no further
    one beside the electrical.
    """
    powers = [channel for channel in compress(schema.sensors, present) if channel.quantity == "power"]
    whole = [channel for channel in powers if not channel.place and not _WHOLE.isdisjoint(channel.words)]
    drawn = [channel for channel in powers if _NOT_DRAWN.isdisjoint(channel.words)]
    return tuple(channel.name for channel in whole[:1] or drawn or powers)


def energies(sensors_xTC: np.ndarray, schema: Schema, names: Sequence[str], period: float) -> np.ndarray:
    """The integral of the named power sensors over the rows, in Wh; leading axes stay, power fed back is subtracted."""
    total = np.zeros(sensors_xTC.shape[:-2])
    for name in names:
        watts = conversion(schema.channel(name).unit, "W")
        column = sensors_xTC[..., schema.sensor_names.index(name)]
        total = total + (column * watts.scale + watts.offset).sum(axis=-1) * period / 3600.0
    return total


@dataclass(frozen=True)
class Limit:
    """A sensor stays at or below a value in the unit of the schema; `tool` is empty where it holds for all."""

    sensor: str
    highest: float
    unit: str
    tool: str = ""

    @property
    def title(self) -> str:
        """As it can be written again."""
        whose = f"{self.tool}: " if self.tool else ""
        return f"{whose}{self.sensor}<={self.highest:g} {self.unit}"


def read_limit(text: str, schema: Schema, tool: str = "") -> Limit:
    """A limit such as `spindle_torque<=40`, `spindle_power<=8 kW` or `SCHAFT_D4: spindle_torque<=9 N m`.

    A shell takes `<` for itself, so `=` stands for `<=` as well.
    """
    match = _LIMIT.fullmatch(str(text))
    if match is None:
        raise ConfigError(
            f"The limit '{text}' cannot be read.",
            expected="SENSOR<=VALUE with or without a unit, such as spindle_power<=8 kW",
        )
    if match["name"] not in schema.sensor_names:
        raise ConfigError(
            f"The limited sensor '{match['name']}' is no sensor of the model.",
            expected=f"some of {', '.join(schema.sensor_names)}",
        )
    channel = schema.channel(match["name"])
    factor = conversion(match["unit"] or channel.unit, channel.unit)
    return Limit(
        channel.name, float(match["number"]) * factor.scale + factor.offset, channel.unit, match["tool"] or tool
    )


def read_limits(
    texts: Sequence[str], schema: Schema, per_tool: Mapping[str, Sequence[str]] | None = None
) -> tuple[Limit, ...]:
    """Every limit once; a second one on the same sensor and tool is a contradiction."""
    limits = [read_limit(text, schema) for text in texts]
    for tool, tool_texts in (per_tool or {}).items():
        limits += [read_limit(text, schema, tool) for text in tool_texts]
    seen: dict[tuple[str, str], Limit] = {}
    for limit in limits:
        earlier = seen.setdefault((limit.tool, limit.sensor), limit)
        if earlier is not limit and earlier.highest != limit.highest:
            raise ConfigError(
                f"Two limits contradict each other: {earlier.title} and {limit.title}.",
                expected="one limit for each sensor and tool",
            )
    return tuple(seen.values())


def highest_by_sensor(limits: Sequence[Limit]) -> dict[str, float]:
    """The limits of a forecast in schema units; one for a single tool is refused, since no tools are known there."""
    for limit in limits:
        if limit.tool:
            raise ConfigError(
                f"The limit {limit.title} is for one tool.",
                expected="limits that hold for a whole forecast",
                remedy="Leave the tool out, or plan with crossfeed control plan, which knows the program's tools.",
            )
    return {limit.sensor: limit.highest for limit in limits}


def check_sensors(names: Sequence[str] | Mapping[str, float], schema: Schema, present: np.ndarray, what: str) -> None:
    """Refuse names that are no sensors, or sensors that this history does not show."""
    shown = list(compress(schema.sensor_names, present))
    unknown = [name for name in names if name not in shown]
    if unknown:
        why = "is no sensor of the model" if unknown[0] not in schema.sensor_names else "is absent from the history"
        raise ConfigError(f"{what} '{unknown[0]}' {why}.", expected=f"some of {', '.join(shown)}")


@dataclass(frozen=True)
class Peak:
    """The highest value of a sensor over a plan, and the chance that it lies above the limit."""

    unit: str
    mean: float
    low: float
    high: float
    limit: float | None
    probability: float | None


def peaks(paths_NTC: np.ndarray, schema: Schema, names: Sequence[str], limits: Mapping[str, float]) -> dict[str, Peak]:
    """The peak of each named sensor."""
    by_sensor = {}
    for name in names:
        highest_N = paths_NTC[..., schema.sensor_names.index(name)].max(axis=1)
        estimate, limit = Estimate.of(highest_N), limits.get(name)
        probability = None if limit is None else float((highest_N > limit).mean())
        by_sensor[name] = Peak(
            schema.channel(name).unit, estimate.mean, estimate.low, estimate.high, limit, probability
        )
    return by_sensor


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
