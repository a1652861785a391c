"""The vocabulary: a channel has a name, a physical quantity and a unit; a schema is a list of sensors and commands.

A machine shows any subset of a schema's channels. Factors between native and schema units are derived from the two
unit names, never typed by hand.
"""

import hashlib
import json
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import ValidationError, model_validator

from crossfeed.configuration import CheckedForm, load_yaml, problems
from crossfeed.errors import SchemaError


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is known of a physical quantity on machine tools; numbers are in its usual unit."""

    unit: str  # the usual one
    others: tuple[str, ...] = ()  # further units in which controllers write it
    has_zero: bool = True  # zero is a standstill, not a convention
    is_speed: bool = False  # as a command it moves the machine
    is_effort: bool = False  # of a spindle it is the greater the more is cut
    is_share: bool = False  # written as 0..1 or as 0..100
    reach: tuple[float, float] | None = None  # how far it goes on machines that exist
    valid: tuple[float, float] | None = None  # what lies outside is a damaged reading
    ending: str | None = None  # of the canonical sensors of a drive
    # An unnamed unit is told by how far the values reach: the first one whose limit they do not pass.
    by_reach: tuple[tuple[float, str], ...] = ()
    sure_below: float = 0.0  # the reach up to which that is no guess
    idle: float = 0.0  # where a command stands that a machine does not have

    def unit_for(self, reach: float) -> tuple[str, bool]:
        """The probable unit of values that reach so far, and whether it is sure."""
        units = (unit for limit, unit in self.by_reach if reach <= limit)
        return next(units, self.unit) if reach > 0.0 else self.unit, reach < self.sure_below


_ANY = math.inf
# Users add their own under `quantities:` in a YAML schema. Quantities of equal dimension stay apart: a percent
# load is no override and no modulation depth.
FACTS: dict[str, Quantity] = {
    "current": Quantity("A", ("mA",), is_effort=True, reach=(1e-3, 2_000.0), ending="current"),
    "torque": Quantity("N m", ("mN m", "N cm"), is_effort=True, reach=(1e-3, 5_000.0), ending="torque"),
    "force": Quantity("N", ("kN",), is_effort=True),
    "power": Quantity(
        "kW", ("W",), is_effort=True, reach=(1e-3, 300.0), ending="power", by_reach=((150.0, "kW"), (_ANY, "W"))
    ),
    "energy": Quantity("kWh", ("Wh",)),
    "voltage": Quantity("V", ("mV", "kV"), ending="dc_voltage"),
    "temperature": Quantity(
        "degC", has_zero=False, reach=(1.0, 200.0), valid=(1.0, 150.0), ending="motor_temp",
        by_reach=((250.0, "degC"), (_ANY, "kelvin")), sure_below=120.0,
    ),
    "modulation depth": Quantity("%", is_share=True, reach=(2.0, 250.0), ending="mod_depth"),
    "load": Quantity("%", is_effort=True, is_share=True, valid=(-400.0, 400.0)),
    "override": Quantity("%", is_share=True, valid=(0.0, 300.0), idle=100.0),
    "rotational speed": Quantity(
        "rpm", ("deg/s", "turn/s", "rad/s"), is_speed=True, reach=(30.0, 70_000.0), valid=(-200_000.0, 200_000.0),
        by_reach=((90.0, "revolution/s"), (45_000.0, "rpm"), (_ANY, "deg/s")),
    ),
    "feed": Quantity(
        "mm/min", ("mm/s", "m/min", "in/min", "m/s"), is_speed=True, reach=(100.0, 150_000.0),
        valid=(-120_000.0, 120_000.0), by_reach=((700.0, "mm/s"),),
    ),
    "position": Quantity("mm", ("m", "in", "um"), has_zero=False),
    "acceleration": Quantity("mm/s^2", ("m/s^2",)),
    "angle": Quantity("deg", has_zero=False),
    "vibration": Quantity("mm/s", ("m/s",)),
    "pressure": Quantity("bar", ("Pa", "kPa", "MPa")),
    "flow": Quantity("L/min"),
    "ratio": Quantity("1", is_share=True),
}  # fmt: skip
QUANTITIES: dict[str, str] = {name: facts.unit for name, facts in FACTS.items()}
_OF_A_USER = Quantity("")


def facts_of(quantity: str) -> Quantity:
    """What is known of a quantity; little of one that a user added."""
    return FACTS.get(quantity, _OF_A_USER)


_SPELLINGS = {
    "%": "percent",
    "Nm": "N*m",
    "N m": "N*m",
    "°C": "degC",
    "°": "deg",
    "°/s": "deg/s",
    "1/min": "rpm",
    "1": "",
}

# Increments of a controller, such as "0.0001 rpm" or "0.1 mm/min"; "1/min" is a unit, no increment.
_INCREMENT = re.compile(r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s+([^\W\d].*|[%°].*)")
# Units of which a k before them makes a thousand.
_SINGLE = ("A", "N", "V", "W")


class Conversion(NamedTuple):
    """The affine map from a native unit to a schema unit: `value * scale + offset`."""

    scale: float
    offset: float


@cache
def conversion(native: str, wanted: str) -> Conversion:
    """Derive the map between two units; refuse units of different dimension."""
    if native == wanted:
        return Conversion(1.0, 0.0)
    if wanted in _SINGLE and native == f"k{wanted}":  # the registry takes half a second to read
        return Conversion(1000.0, 0.0)
    if (increment := _INCREMENT.fullmatch(native.strip())) and float(increment[1]) > 0:
        scale, offset = conversion(increment[2], wanted)
        return Conversion(scale * float(increment[1]), offset)
    registry = _registry()
    try:
        zero = registry.Quantity(0.0, _parse(native)).to(_parse(wanted)).magnitude
        one = registry.Quantity(1.0, _parse(native)).to(_parse(wanted)).magnitude
    except Exception as error:  # pint raises a dozen unrelated types for bad spellings
        raise SchemaError(
            f"A value in '{native}' cannot be turned into '{wanted}': {error}",
            expected="two units of the same physical dimension",
            remedy="Correct the unit in the machine's declaration or in the schema.",
        ) from error
    return Conversion(float(one - zero), float(zero))


@cache
def convertible(native: str, wanted: str) -> bool:
    """Whether two units measure the same kind of thing."""
    try:
        conversion(native, wanted)
    except SchemaError:
        return False
    return True


@cache
def _registry() -> Any:
    import pint

    registry: Any = pint.UnitRegistry()
    registry.define("@alias revolution = rev")
    return registry


@cache
def _parse(unit: str) -> Any:
    """A unit name as pint understands it, with the spellings that controllers use."""
    return _registry().parse_units(_SPELLINGS.get(unit.strip(), unit.strip()))


# Parts of a machine that names of channels speak about.
PLACES = ("spindle", "x", "y", "z", "a", "b", "c")


class Channel(CheckedForm):
    """One measured or commanded signal."""

    name: str
    quantity: str
    unit: str

    @property
    def words(self) -> list[str]:
        """The words its name is made of."""
        return re.split(r"[\W_]+", self.name.lower())

    @property
    def place(self) -> str:
        """Which part of the machine it belongs to, by the words of its name; empty when none is named."""
        return next((word for word in self.words if word in PLACES), "")

    @property
    def has_zero(self) -> bool:
        """Whether zero means that nothing happens; the voltage of a DC link and a temperature never get there."""
        link = self.quantity == "voltage" and "dc" in self.words
        return facts_of(self.quantity).has_zero and not link

    @property
    def idle(self) -> float:
        """Where it stands as a command that a machine does not have: an override that nobody can turn is at 100 %."""
        facts = facts_of(self.quantity)
        return facts.idle * conversion(facts.unit, self.unit).scale if facts.idle else 0.0

    @property
    def feels_the_cut(self) -> bool:
        """Whether it is an effort of the spindle, which is the greater the more is cut."""
        return self.place == "spindle" and facts_of(self.quantity).is_effort

    @property
    def moves(self) -> bool:
        """Whether it moves the machine as a command; an override stands at 100 % while nothing happens."""
        return facts_of(self.quantity).is_speed


class Schema(CheckedForm):
    """The channels a model speaks about, in a fixed order.

    Examples:
        >>> import crossfeed as cf
        >>> power = {"name": "spindle_power", "quantity": "power", "unit": "kW"}
        >>> speed = {"name": "spindle_speed", "quantity": "rotational speed", "unit": "rpm"}
        >>> schema = cf.Schema.from_mapping({"name": "router", "sensors": [power], "commands": [speed]})
        >>> schema.sensor_names, schema.channel("spindle_speed").unit
        (('spindle_power',), 'rpm')
    """

    name: str
    sensors: tuple[Channel, ...]
    commands: tuple[Channel, ...]
    quantities: dict[str, str] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.sensors or not self.commands:
            raise ValueError(f"schema '{self.name}' needs at least one sensor and one command")
        names = [channel.name for channel in self.channels]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"schema '{self.name}' names these channels twice: {', '.join(doubled)}")
        known = QUANTITIES | self.quantities
        for channel in self.channels:
            if channel.quantity not in known:
                raise ValueError(
                    f"channel '{channel.name}' has the unknown quantity '{channel.quantity}'; known are "
                    f"{', '.join(sorted(known))}; add your own under 'quantities:'"
                )
            conversion(channel.unit, known[channel.quantity])
        return self

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Sensors first, then commands."""
        return self.sensors + self.commands

    @property
    def sensor_names(self) -> tuple[str, ...]:
        return tuple(channel.name for channel in self.sensors)

    @property
    def command_names(self) -> tuple[str, ...]:
        return tuple(channel.name for channel in self.commands)

    @property
    def command_groups(self) -> tuple[tuple[int, ...], ...]:
        """Commands that act together: all feeds make one path speed, every other command stands for itself."""
        feeds = tuple(place for place, command in enumerate(self.commands) if command.quantity == "feed")
        others = tuple((place,) for place, command in enumerate(self.commands) if command.quantity != "feed")
        return (*others, feeds) if feeds else others

    def channel(self, name: str) -> Channel:
        """Look a channel up by name."""
        for channel in self.channels:
            if channel.name == name:
                return channel
        raise SchemaError(
            f"Schema '{self.name}' has no channel '{name}'.",
            expected=f"one of {', '.join(c.name for c in self.channels)}",
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the channels and their order; the schema's own name does not matter."""
        content = self.model_dump(mode="json", exclude={"name"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @classmethod
    def from_mapping(cls, content: Any, origin: str = "the schema") -> Self:
        """Build a schema from parsed YAML or JSON, with readable errors."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise SchemaError(
                f"{origin} is not a valid schema: {problems(error, 'schema')}.",
                expected="'name', 'sensors' and 'commands', each channel with 'name', 'quantity' and 'unit'",
                remedy="See docs/data.md for a complete example.",
            ) from error

    @classmethod
    def from_yaml(cls, path: Path | str) -> Self:
        """Read a user's schema file."""
        return cls.from_mapping(load_yaml(path, "The schema file", SchemaError), origin=str(path))

    def to_yaml(self) -> str:
        """The schema as a YAML text that `from_yaml` reads back."""
        import yaml

        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _channels(quantity: str, *names: str) -> tuple[Channel, ...]:
    return tuple(Channel(name=name, quantity=quantity, unit=QUANTITIES[quantity]) for name in names)


@cache
def canonical() -> Schema:
    """The 17 sensors and 4 commands of the study, in their fixed order."""
    return Schema(
        name="canonical",
        sensors=(
            *_channels("current", "spindle_current"),
            *_channels("torque", "spindle_torque"),
            *_channels("power", "spindle_power"),
            *_channels("current", "x_current"),
            *_channels("torque", "x_torque"),
            *_channels("current", "y_current"),
            *_channels("torque", "y_torque"),
            *_channels("current", "z_current"),
            *_channels("torque", "z_torque"),
            *_channels("power", "z_power"),
            *_channels("temperature", "spindle_motor_temp", "x_motor_temp", "y_motor_temp", "z_motor_temp"),
            *_channels("voltage", "spindle_dc_voltage"),
            *_channels("modulation depth", "spindle_mod_depth"),
            *_channels("temperature", "ambient_temp"),
        ),
        commands=(*_channels("rotational speed", "spindle_speed"), *_channels("feed", "feed_x", "feed_y", "feed_z")),
    )
