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
class ProposedChannel:
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

    channels: tuple[ProposedChannel, ...]
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
        prefixes = dict.fromkeys(_name_prefix(item) for item in items if item.subtype not in _COMMANDED)
        for prefix in prefixes if len(prefixes) > 1 else ("",):
            number += 1
            found.setdefault(component, {})[prefix] = "spindle" if number == 1 else f"spindle_{number}"
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


def _sensors(values: list[Item], spindles: _Spindles) -> list[ProposedChannel]:
    found = []
    for item in values:
        if item.type in _SENSORS and item.subtype not in _COMMANDED:
            ending, quantity, valid = _SENSORS[item.type]
            name = "_".join(part for part in (_part(item, spindles), ending) if part)
            found.append(ProposedChannel(item, name, quantity, False, valid, f"{item.type} of {item.owner}"))
    return found


def _preferred(items: list[Item]) -> Item:
    """The commanded value of several items for one thing, else the actual one."""
    return min(items, key=lambda item: (item.subtype not in _COMMANDED, item.subtype not in ("ACTUAL", "")))


def _command(item: Item, name: str, quantity: str, valid: tuple[float, float], what: str) -> ProposedChannel:
    commanded = f"commanded {what}" if item.subtype in _COMMANDED else f"actual {what}, stands in for the command"
    return ProposedChannel(item, name, quantity, True, valid, commanded)


def _speeds(values: list[Item], spindles: _Spindles) -> list[ProposedChannel]:
    told: dict[str, list[Item]] = {}
    for item in values:
        if item.type in _SPINDLE_SPEED and (name := _spindle_of(item, spindles)) is not None:
            told.setdefault(name, []).append(item)
    found = []
    for name, own in told.items():
        item = _preferred(own)
        found.append(_command(item, f"{name}_speed", "rotational speed", _SPEED, f"speed of {item.owner}"))
        for other in own if item.subtype in _COMMANDED else ():
            if other is not item and other.subtype in ("ACTUAL", ""):
                reason = f"actual speed of {other.owner}"
                found.append(ProposedChannel(other, f"{name}_actual_speed", "rotational speed", False, _SPEED, reason))
    return found


def _axis_feeds(values: list[Item]) -> list[ProposedChannel]:
    axes: dict[str, list[Item]] = {}
    for item in values:
        if item.type in _AXIS_SPEED:
            axes.setdefault(item.component_name, []).append(item)
    found = []
    for axis, own in axes.items():
        item = _preferred(own)
        linear = item.type == "AXIS_FEEDRATE" and item.unit not in ("DEGREE/SECOND", "DEGREE/MINUTE")
        quantity, valid = ("feed", _FEED) if linear else ("rotational speed", _SPEED)
        found.append(_command(item, f"feed_{_slug(axis)}", quantity, valid, f"feed of {item.owner}"))
    return found


def _path(values: list[Item]) -> list[ProposedChannel]:
    """The feed along the path: where no axis tells its own, or where it is commanded."""
    along = [one for one in values if one.type == "PATH_FEEDRATE"]
    if not along:
        return []
    item = _preferred(along)
    if item.subtype not in _COMMANDED and any(one.type == "AXIS_FEEDRATE" for one in values):
        return []
    return [_command(item, "feed_path", "feed", _FEED, "feed along the path")]


def _overrides(values: list[Item], spindles: _Spindles) -> list[ProposedChannel]:
    found: dict[str, ProposedChannel] = {}
    for item in values:
        if item.type in ("PATH_FEEDRATE_OVERRIDE", "AXIS_FEEDRATE_OVERRIDE") and item.subtype != "JOG":
            name = "rapid_override" if item.subtype == "RAPID" else "feed_override"
        elif item.type in ("ROTARY_VELOCITY_OVERRIDE", "SPINDLE_SPEED_OVERRIDE"):
            name = f"{_part(item, spindles) or 'spindle'}_override"
        else:
            continue
        if name not in found or item.type.startswith("PATH"):
            found[name] = ProposedChannel(
                item, name, "override", True, _OVERRIDE, f"{item.type} {item.subtype}".strip()
            )
    return list(found.values())


def _unambiguous(found: list[ProposedChannel]) -> list[ProposedChannel]:
    """Channels that would share a name are named after their items instead."""
    names = [one.name for one in found]
    kept: dict[str, ProposedChannel] = {}
    for one in found:
        name = _own_name(one.item, one.name.rpartition("_")[2]) if names.count(one.name) > 1 else one.name
        kept.setdefault(name, replace(one, name=name))
    return list(kept.values())


def _name_prefix(item: Item) -> str:
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


def native_range(one: ProposedChannel, where: str) -> tuple[float, float] | None:
    """The plausible range in the unit of the item; wide enough that only damaged readings lie outside."""
    if one.valid is None:
        return None
    if one.quantity in ("feed", "rotational speed"):
        usual = "mm/s" if one.quantity == "feed" else "rpm"
        factor = conversion(usual, unit_of(one.item, where)).scale
        return one.valid[0] * factor, one.valid[1] * factor
    return one.valid


def _slug(text: str) -> str:
    """A channel name from any text."""
    return re.sub(r"[^a-z0-9]+", "_", text.strip().lower()).strip("_") or "item"
