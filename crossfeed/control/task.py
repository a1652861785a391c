"""What is asked of a planner: limits, what counts as better, and how far and how fast the knobs may be turned.

Everything in physical units, from one YAML file, from the command line, or both: later words win.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from crossfeed.configuration import CheckedForm, load_yaml, parse
from crossfeed.errors import ConfigError, SchemaError
from crossfeed.scenarios.measures import Limit, check_sensors, read_limits
from crossfeed.schema import Schema, conversion

_HIGHEST_KNOB = 2.0  # what a control's knob offers


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
    highest: dict[str, np.ndarray] = {}
    for limit in limits:
        holds = np.array([not limit.tool or tool == limit.tool for tool in tools_T], dtype=bool)
        row = highest.setdefault(limit.sensor, np.full(len(tools_T), math.inf))
        np.minimum(row, np.where(holds, limit.highest, math.inf), out=row)
    return highest


def _in(unit: str) -> Any:
    """A number in this unit, or a text such as '8 kW' that is turned into it."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        number, _, given = value.strip().partition(" ")
        if not given and number.endswith("%"):
            number, given = number[:-1], "%"
        try:
            factor = conversion(given.strip().replace("%", "percent") or unit, unit)
            return float(number) * factor.scale + factor.offset
        except (ValueError, SchemaError) as error:
            raise ValueError(f"'{value}' is no number in {unit or 'parts of one'}") from error

    return BeforeValidator(read)


Share = Annotated[float, _in("1")]
Seconds = Annotated[float, _in("s")]


class Knob(CheckedForm):
    """How far an override may go; 1 is 100 %."""

    min: Share = 1.0
    max: Share = 1.0

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not 0.0 < self.min <= 1.0 <= self.max <= _HIGHEST_KNOB:
            raise ValueError(
                f"an override from {self.min:.0%} to {self.max:.0%} was asked for; it has to hold 100 %, be above 0 "
                f"and at or below {_HIGHEST_KNOB:.0%} (write 80 % or 0.8)"
            )
        return self

    @property
    def free(self) -> bool:
        """Whether there is anything to choose."""
        return self.min < self.max


class Objective(CheckedForm):
    """What counts as better: time plus price times energy, or energy within a given time.

    base_load is what the machine draws beside the measured drives for as long as the program runs.
    """

    minimise: Literal["cost", "energy"] = "cost"
    price: Annotated[float, _in("s/kWh"), Field(ge=0.0)] = 15.0  # a 60 EUR/h machine at 0.25 EUR/kWh
    base_load: Annotated[float, _in("kW"), Field(ge=0.0)] = 0.0
    within: Annotated[Seconds | None, Field(gt=0.0)] = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.minimise == "energy") != (self.within is not None):
            raise ValueError("'minimise: energy' and 'within: SECONDS' belong together")
        return self


class Task(CheckedForm):
    """Everything but the program, the history and the model.

    risk: the chance that a program passes a limit because it goes faster; confidence: of the gain; slew: of both knobs,
    per second; leave: tools whose cuts stay as written.
    """

    limits: tuple[str, ...] = ()
    tools: dict[str, tuple[str, ...]] = {}
    objective: Objective = Objective()
    feed: Knob = Knob(min=0.5, max=1.2)
    spindle: Knob = Knob()
    slew: Annotated[float, _in("1/s"), Field(gt=0.0)] = 0.1
    resolution: Literal["block", "second"] = "second"
    risk: Annotated[Share, Field(gt=0.0, le=0.5)] = 0.05
    confidence: Annotated[Share, Field(ge=0.5, lt=1.0)] = 0.95
    leave: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _something_to_choose(self) -> Self:
        if not (self.feed.free or self.spindle.free):
            raise ValueError("neither the feed nor the spindle override may change, so there is nothing to plan")
        return self

    def limits_of(self, schema: Schema) -> tuple[Limit, ...]:
        """The limits in the units of a schema."""
        return read_limits(self.limits, schema, self.tools)

    @property
    def energy_price(self) -> float:
        """Seconds that a kWh is worth: in the hunt for energy all that counts."""
        return self.objective.price if self.objective.minimise == "cost" else 3600.0

    @property
    def time_price(self) -> float:
        """What a second counts for."""
        return 1.0 if self.objective.minimise == "cost" else 0.0


def read_task(path: Path | str | None = None, changes: Mapping[str, Any] | None = None) -> Task:
    """The task of a YAML file with the changes of the command line; without a file, the defaults with them."""
    content = {} if path is None else load_yaml(path, "The task file") or {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds no names with values.", expected=f"some of {', '.join(Task.model_fields)}")
    for name, value in (changes or {}).items():
        if name == "limits":
            content["limits"] = [*content.get("limits", ()), *value]
        elif isinstance(value, Mapping):
            content[name] = {**content.get(name, {}), **value}
        else:
            content[name] = value
    return parse(Task, content, f"The task in {path}" if path is not None else "The task")


def knob_text(text: str, which: str) -> dict[str, str]:
    """The range `50..120` of the command line, in per cent."""
    low, dots, high = text.partition("..")
    if not dots:
        raise ConfigError(f"The {which} override '{text}' is no range.", expected="two numbers in per cent: 50..120")
    return {"min": f"{low.strip().removesuffix('%')}%", "max": f"{high.strip().removesuffix('%')}%"}


def deadline_met(task: Task, seconds: float) -> bool:
    """Whether a plan is quick enough for the time that was given, if any."""
    within = task.objective.within
    return within is None or seconds <= within + 1e-9 or math.isclose(seconds, within)
