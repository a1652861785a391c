"""Highest values that the sensors may reach: for every tool, or for one of them, in any unit of the right kind."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crossfeed.errors import ConfigError
from crossfeed.schema import Schema, conversion
from crossfeed.serving.measures import check_sensors

_LIMIT = re.compile(
    r"\s*(?:(?P<tool>[^:\s][^:]*?)\s*:)?\s*(?P<name>[A-Za-z_]\w*)\s*<=?\s*"
    r"(?P<number>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(?P<unit>\S.*?)?\s*"
)


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
    """A limit such as `spindle_torque<=40`, `spindle_power<=8 kW` or `SCHAFT_D4: spindle_torque<=9 N m`."""
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
    found = [read_limit(text, schema) for text in texts]
    for tool, own in (per_tool or {}).items():
        found += [read_limit(text, schema, tool) for text in own]
    seen: dict[tuple[str, str], Limit] = {}
    for limit in found:
        earlier = seen.setdefault((limit.tool, limit.sensor), limit)
        if earlier is not limit and earlier.highest != limit.highest:
            raise ConfigError(
                f"Two limits contradict each other: {earlier.title} and {limit.title}.",
                expected="one limit for each sensor and tool",
            )
    return tuple(seen.values())


def check_limits(limits: Iterable[Limit], schema: Schema, sensors_KC: np.ndarray, tools: Sequence[str]) -> None:
    """Refuse limits on what this machine does not show, on tools the program lacks, or below its quietest rows."""
    limits = tuple(limits)
    check_sensors(sensors_of(limits), schema, np.isfinite(sensors_KC).any(axis=0), "The limited sensor")
    for limit in limits:
        if limit.tool and limit.tool not in tools:
            raise ConfigError(
                f"The limit {limit.title} is for a tool that the program does not use.",
                expected=f"one of {', '.join(tool for tool in tools if tool)}",
            )
        quietest = float(np.nanmin(sensors_KC[:, schema.sensor_names.index(limit.sensor)]))
        if limit.highest <= quietest:
            raise ConfigError(
                f"The limit {limit.title} is impossible: in all {len(sensors_KC)} rows of the history {limit.sensor} "
                f"was above it, never below {quietest:.4g} {limit.unit}.",
                expected="a limit that the machine can keep at all",
                remedy="Check the value and its unit.",
            )


def sensors_of(limits: Iterable[Limit]) -> tuple[str, ...]:
    """The limited sensors, each once."""
    return tuple(dict.fromkeys(limit.sensor for limit in limits))


def highest_by_row(limits: Iterable[Limit], tools_T: Sequence[str]) -> dict[str, np.ndarray]:
    """For each limited sensor the highest value of every row, infinite where none is set; the tighter one holds."""
    found: dict[str, np.ndarray] = {}
    for limit in limits:
        holds = np.array([not limit.tool or tool == limit.tool for tool in tools_T], dtype=bool)
        row = found.setdefault(limit.sensor, np.full(len(tools_T), math.inf))
        np.minimum(row, np.where(holds, limit.highest, math.inf), out=row)
    return found
