"""Channels for any MTConnect device, proposed from type, subtype and component of its data items.

Loads, temperatures, currents, powers, torques become sensors; speeds, feeds and overrides become commands. A commanded
value is preferred; where a device only tells the actual one, that stands in for it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from crossfeed.errors import LogError
from crossfeed.machines.declaration import NativeColumn
from crossfeed.machines.mtconnect_devices import Item, unit_of
from crossfeed.schema import QUANTITIES, Channel, Schema, conversion

# Type of a sensor item -> ending of the channel's name, quantity, values that can be true in the unit of the channel.
_SENSORS: dict[str, tuple[str, str, tuple[float, float] | None]] = {
    "LOAD": ("load", "load", (-400.0, 400.0)),
    "TEMPERATURE": ("temp", "temperature", (1.0, 150.0)),
    "AMPERAGE": ("current", "current", None),
    "AMPERAGE_AC": ("current", "current", None),
    "AMPERAGE_DC": ("current", "current", None),
    "VOLTAGE": ("voltage", "voltage", None),
    "VOLTAGE_AC": ("voltage", "voltage", None),
    "VOLTAGE_DC": ("dc_voltage", "voltage", None),
    "WATTAGE": ("power", "power", None),
    "TORQUE": ("torque", "torque", None),
    "LINEAR_FORCE": ("force", "force", None),
    "PRESSURE": ("pressure", "pressure", None),
    "FLOW": ("flow", "flow", None),
}
_SPINDLE_SPEED = ("ROTARY_VELOCITY", "SPINDLE_SPEED")
_AXIS_SPEED = ("AXIS_FEEDRATE", "ANGULAR_VELOCITY")
_COMMANDED = ("COMMANDED", "PROGRAMMED")
_Spindles = Mapping[str, Mapping[str, str]]  # component -> how names begin there -> name of the spindle
_FEED, _SPEED, _OVERRIDE = (-2_000.0, 2_000.0), (-200_000.0, 200_000.0), (0.0, 300.0)


@dataclass(frozen=True, slots=True)
class Proposed:
    """One channel with the item it is read from and why."""

    item: Item
    name: str
    quantity: str
    command: bool
    valid: tuple[float, float] | None
    reason: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a device becomes: channels, where its state and program are told, and the items nobody uses."""

    channels: tuple[Proposed, ...]
    execution: str | None
    program: str | None
    unused: tuple[Item, ...]

    def schema(self, name: str) -> Schema:
        """The channels as a schema of their own."""
        sensors, commands = (
            tuple(
                Channel(name=one.name, quantity=one.quantity, unit=QUANTITIES[one.quantity])
                for one in self.channels
                if one.command is command
            )
            for command in (False, True)
        )
        for found, what in ((sensors, "sensor (load, temperature, current, power, torque)"), (commands, "command")):
            if not found:
                told = ", ".join(f"{item.name} ({item.type})" for item in self.unused[:12])
                raise LogError(
                    f"The device '{name}' has no {what} among its data items: {told or 'none that is used'}.",
                    expected="at least one sensor to forecast and one speed, feed or override that moves the machine",
                    remedy="Add sensors to the agent of the machine; without them there is nothing to forecast.",
                )
        return Schema(name=_slug(name), sensors=sensors, commands=commands)

    def columns(self, where: str) -> tuple[NativeColumn, ...]:
        """The channels as columns of the log, in the units that the device model states."""
        return tuple(
            NativeColumn(one.item.name, one.name, unit_of(one.item, where), native_range(one, where))
            for one in self.channels
        )


def propose(items: Mapping[str, Item]) -> Proposal:
    """Channels for the items of one device."""
    values = [item for item in items.values() if item.category != "CONDITION"]
    spindles = _spindles(values)
    found = _unambiguous(
        [
            *_sensors(values, spindles),
            *_speeds(values, spindles),
            *_axis_feeds(values),
            *_path(values),
            *_overrides(values, spindles),
        ]
    )
    used = {one.item.name for one in found}
    states = [item.name for item in values if item.type == "EXECUTION"]
    programs = sorted(
        (item for item in values if item.type == "PROGRAM"), key=lambda item: item.subtype not in ("", "MAIN")
    )
    unused = tuple(item for item in values if item.name not in used and item.category == "SAMPLE")
    return Proposal(tuple(found), states[0] if states else None, programs[0].name if programs else None, unused)


def _spindles(values: Iterable[Item]) -> _Spindles:
    """The rotary components that are spindles, with the name of each spindle in them.

    Several spindles in components of one name are told apart by how the names of their items begin.
    """
    told: dict[str, list[Item]] = {}
    for item in values:
        if item.type in _SPINDLE_SPEED:
            told.setdefault(item.component_name, []).append(item)
    found: dict[str, dict[str, str]] = {}
    number = 0
    for component, items in told.items():
        beginnings = dict.fromkeys(_beginning(item) for item in items if item.subtype not in _COMMANDED)
        for beginning in beginnings if len(beginnings) > 1 else ("",):
            number += 1
            found.setdefault(component, {})[beginning] = "spindle" if number == 1 else f"spindle_{number}"
    return found


def _spindle_of(item: Item, spindles: _Spindles) -> str | None:
    """The spindle that an item of a spindle's component belongs to; None where its name begins like none of them."""
    own = spindles[item.component_name]
    name = _slug(item.name)
    return next((own[some] for some in sorted(own, key=len, reverse=True) if name.startswith(some)), None)


def _part(item: Item, spindles: _Spindles) -> str:
    if item.component in ("Rotary", "Spindle") and item.component_name in spindles:
        return _spindle_of(item, spindles) or _slug(item.component_name)
    if item.component in ("Device", "Path", "Controller", "Axes", ""):
        return ""
    return _slug(item.component_name or item.component)


def _sensors(values: list[Item], spindles: _Spindles) -> list[Proposed]:
    found = []
    for item in values:
        if item.type in _SENSORS and item.subtype not in _COMMANDED:
            ending, quantity, valid = _SENSORS[item.type]
            name = "_".join(part for part in (_part(item, spindles), ending) if part)
            found.append(Proposed(item, name, quantity, False, valid, f"{item.type} of {_place(item)}"))
    return found


def _chosen(items: list[Item]) -> Item | None:
    """The commanded value of several items for one thing, else the actual one."""
    ranked = sorted(items, key=lambda item: (item.subtype not in _COMMANDED, item.subtype not in ("ACTUAL", "")))
    return ranked[0] if ranked else None


def _speeds(values: list[Item], spindles: _Spindles) -> list[Proposed]:
    told: dict[str, list[Item]] = {}
    for item in values:
        if item.type in _SPINDLE_SPEED and (name := _spindle_of(item, spindles)) is not None:
            told.setdefault(name, []).append(item)
    found = []
    for name, own in told.items():
        chosen = _chosen(own)
        assert chosen is not None
        found.append(_speed(chosen, f"{name}_speed"))
        found += [
            Proposed(
                other, f"{name}_actual_speed", "rotational speed", False, _SPEED, f"actual speed of {_place(other)}"
            )
            for other in own
            if other is not chosen and chosen.subtype in _COMMANDED and other.subtype in ("ACTUAL", "")
        ]
    return found


def _speed(item: Item, name: str) -> Proposed:
    return Proposed(item, name, "rotational speed", True, _SPEED, _told(item, f"speed of {_place(item)}"))


def _axis_feeds(values: list[Item]) -> list[Proposed]:
    axes = dict.fromkeys(item.component_name for item in values if item.type in _AXIS_SPEED)
    found = []
    for axis in axes:
        item = _chosen([one for one in values if one.type in _AXIS_SPEED and one.component_name == axis])
        assert item is not None
        linear = item.type == "AXIS_FEEDRATE" and item.unit not in ("DEGREE/SECOND", "DEGREE/MINUTE")
        quantity, valid = ("feed", _FEED) if linear else ("rotational speed", _SPEED)
        found.append(
            Proposed(item, f"feed_{_slug(axis)}", quantity, True, valid, _told(item, f"feed of {_place(item)}"))
        )
    return found


def _path(values: list[Item]) -> list[Proposed]:
    """The feed along the path: where no axis tells its own, or where it is commanded."""
    item = _chosen([one for one in values if one.type == "PATH_FEEDRATE"])
    if item is None or (item.subtype not in _COMMANDED and any(one.type == "AXIS_FEEDRATE" for one in values)):
        return []
    return [Proposed(item, "feed_path", "feed", True, _FEED, _told(item, "feed along the path"))]


def _overrides(values: list[Item], spindles: _Spindles) -> list[Proposed]:
    found: dict[str, Proposed] = {}
    for item in values:
        if item.type in ("PATH_FEEDRATE_OVERRIDE", "AXIS_FEEDRATE_OVERRIDE") and item.subtype != "JOG":
            name = "rapid_override" if item.subtype == "RAPID" else "feed_override"
        elif item.type in ("ROTARY_VELOCITY_OVERRIDE", "SPINDLE_SPEED_OVERRIDE"):
            name = f"{_part(item, spindles) or 'spindle'}_override"
        else:
            continue
        if name not in found or item.type.startswith("PATH"):
            found[name] = Proposed(item, name, "override", True, _OVERRIDE, f"{item.type} {item.subtype}".strip())
    return list(found.values())


def _unambiguous(found: list[Proposed]) -> list[Proposed]:
    """Channels that would share a name are named after their items instead."""
    names = [one.name for one in found]
    kept: dict[str, Proposed] = {}
    for one in found:
        name = _own_name(one.item, one.name.rpartition("_")[2]) if names.count(one.name) > 1 else one.name
        kept.setdefault(name, replace(one, name=name))
    return list(kept.values())


def _beginning(item: Item) -> str:
    """How the name of a speed begins: s1 of both `S1speed` and `S1cmd`."""
    own = _slug(item.name)
    for _ in range(2):
        for usual in ("speed", "rpm", "act", "cmd", "com", "prog", "set"):
            own = own.removesuffix(usual).strip("_")
    return own


def _own_name(item: Item, ending: str) -> str:
    """A name from that of the item: `S2load` becomes s2_load, `Srpm` s_speed."""
    own = _slug(item.name)
    for usual in (ending, "rpm", "frt", "act"):
        own = own.removesuffix(usual)
    return f"{own.strip('_')}_{ending}".strip("_")


def native_range(one: Proposed, where: str) -> tuple[float, float] | None:
    """The plausible range in the unit of the item; wide enough that only damaged readings lie outside."""
    if one.valid is None:
        return None
    if one.quantity in ("feed", "rotational speed"):
        usual = "mm/s" if one.quantity == "feed" else "rpm"
        factor = conversion(usual, unit_of(one.item, where)).scale
        return one.valid[0] * factor, one.valid[1] * factor
    return one.valid


def _told(item: Item, what: str) -> str:
    return f"commanded {what}" if item.subtype in _COMMANDED else f"actual {what}, stands in for the command"


def _place(item: Item) -> str:
    return f"{item.component} {item.component_name}".strip() or "the device"


def _slug(text: str) -> str:
    """A channel name from any text."""
    return re.sub(r"[^a-z0-9]+", "_", text.strip().lower()).strip("_") or "item"
