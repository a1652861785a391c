"""Channels for any MTConnect device, proposed from its data items, and the mapping that renames or drops them.

Loads, temperatures, currents, powers, torques become sensors; speeds, feeds and overrides become commands. A commanded
value is preferred; where a device only tells the actual one, that stands in for it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pydantic import Field

from crossfeed.errors import ConfigError, LogError
from crossfeed.logs.declaration import NativeColumn
from crossfeed.logs.files import match_columns
from crossfeed.logs.mapping import ColumnEntry, MappingFile
from crossfeed.logs.mtconnect_devices import Item, unit_of
from crossfeed.logs.proposal import NAMES, ProposedChannel
from crossfeed.schema import QUANTITIES, Channel, Schema, conversion, facts_of

_TYPES = NAMES["mtconnect"]
# Type of a sensor item -> ending of the channel's name, quantity.
_SENSORS: dict[str, tuple[str, str]] = {
    kind: (ending, entry["quantity"]) for ending, entry in _TYPES["sensors"].items() for kind in entry["types"]
}
_SPINDLE_SPEED, _AXIS_SPEED, _COMMANDED = _TYPES["spindle_speeds"], _TYPES["axis_speeds"], _TYPES["commanded"]
_Spindles = Mapping[str, Mapping[str, str]]  # component -> how names begin there -> name of the spindle


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a device becomes: channels, where its state and program are told, and the items nobody uses."""

    items: Mapping[str, Item]
    channels: tuple[ProposedChannel, ...]
    execution: str | None
    program: str | None
    unused: tuple[Item, ...]

    def schema(self, name: str) -> Schema:
        """The channels as a schema of their own."""
        sensors, commands = (
            tuple(channel_of(c.channel, c.quantity) for c in self.channels if c.command is command)
            for command in (False, True)
        )
        for channels, what in ((sensors, "sensor (load, temperature, current, power, torque)"), (commands, "command")):
            if not channels:
                items = ", ".join(f"{item.name} ({item.type})" for item in self.unused[:12])
                raise LogError(
                    f"The device '{name}' has no {what} among its data items: {items or 'none that is used'}.",
                    expected="at least one sensor to forecast and one speed, feed or override that moves the machine",
                    remedy="Add sensors to the agent of the machine; without them there is nothing to forecast.",
                )
        return Schema(name=_slug(name), sensors=sensors, commands=commands)

    def columns(self, where: str) -> tuple[NativeColumn, ...]:
        """The channels as columns of the log, in the units that the device model states."""
        return tuple(
            NativeColumn(item.name, c.channel, unit_of(item, where), native_range(c.quantity, item, where))
            for c in self.channels
            for item in (self.items[c.native],)
        )


def channel_of(name: str, quantity: str) -> Channel:
    """A channel in the usual unit of its quantity."""
    return Channel(name=name, quantity=quantity, unit=QUANTITIES[quantity])


def propose(items: Mapping[str, Item]) -> Proposal:
    """Channels for the items of one device."""
    values = [item for item in items.values() if item.category != "CONDITION"]
    spindles = _spindles(values)
    channels = _unambiguous(
        [
            *_sensors(values, spindles),
            *_speeds(values, spindles),
            *_axis_feeds(values),
            *_path(values),
            *_overrides(values, spindles),
        ]
    )
    used = {channel.native for channel in channels}
    states = [item.name for item in values if item.type == "EXECUTION"]
    programs = sorted(
        (item for item in values if item.type == "PROGRAM"), key=lambda item: item.subtype not in ("", "MAIN")
    )
    unused = tuple(item for item in values if item.name not in used and item.category == "SAMPLE")
    program = programs[0].name if programs else None
    by_name = {item.name: item for item in values}
    return Proposal(by_name, tuple(channels), states[0] if states else None, program, unused)


def _spindles(values: Iterable[Item]) -> _Spindles:
    """The rotary components that are spindles, with the name of each spindle in them.

    Several spindles in components of one name are told apart by how the names of their items begin.
    """
    by_component: dict[str, list[Item]] = {}
    for item in values:
        if item.type in _SPINDLE_SPEED:
            by_component.setdefault(item.component_name, []).append(item)
    names: dict[str, dict[str, str]] = {}
    number = 0
    for component, items in by_component.items():
        prefixes = dict.fromkeys(_name_prefix(item) for item in items if item.subtype not in _COMMANDED)
        for prefix in prefixes if len(prefixes) > 1 else ("",):
            number += 1
            names.setdefault(component, {})[prefix] = "spindle" if number == 1 else f"spindle_{number}"
    return names


def _spindle_of(item: Item, spindles: _Spindles) -> str | None:
    """The spindle that an item of a spindle's component belongs to; None where its name begins like none of them."""
    by_prefix = spindles[item.component_name]
    name = _slug(item.name)
    return next((by_prefix[part] for part in sorted(by_prefix, key=len, reverse=True) if name.startswith(part)), None)


def _part(item: Item, spindles: _Spindles) -> str:
    if item.component in ("Rotary", "Spindle") and item.component_name in spindles:
        return _spindle_of(item, spindles) or _slug(item.component_name)
    if item.component in ("Device", "Path", "Controller", "Axes", ""):
        return ""
    return _slug(item.component_name or item.component)


def _channel(item: Item, name: str, quantity: str, reason: str, command: bool = False) -> ProposedChannel:
    return ProposedChannel(item.name, name, quantity, "", reason, command=command)


def _sensors(values: list[Item], spindles: _Spindles) -> list[ProposedChannel]:
    channels = []
    for item in values:
        if item.type in _SENSORS and item.subtype not in _COMMANDED:
            ending, quantity = _SENSORS[item.type]
            name = "_".join(part for part in (_part(item, spindles), ending) if part)
            channels.append(_channel(item, name, quantity, f"{item.type} of {item.owner}"))
    return channels


def _command(items: list[Item], name: str, quantity: str, what: str = "") -> ProposedChannel:
    """The command that several items tell: the commanded value, else the actual one."""
    item = min(items, key=lambda item: (item.subtype not in _COMMANDED, item.subtype not in ("ACTUAL", "")))
    what = what or f"{'feed' if name.startswith('feed') else 'speed'} of {item.owner}"
    commanded = f"commanded {what}" if item.subtype in _COMMANDED else f"actual {what}, stands in for the command"
    return _channel(item, name, quantity, commanded, command=True)


def _speeds(values: list[Item], spindles: _Spindles) -> list[ProposedChannel]:
    of_spindle: dict[str, list[Item]] = {}
    for item in values:
        if item.type in _SPINDLE_SPEED and (name := _spindle_of(item, spindles)) is not None:
            of_spindle.setdefault(name, []).append(item)
    channels = []
    for name, items in of_spindle.items():
        speed = _command(items, f"{name}_speed", "rotational speed")
        channels.append(speed)
        for item in items if speed.reason.startswith("commanded") else ():
            if item.name != speed.native and item.subtype in ("ACTUAL", ""):
                reason = f"actual speed of {item.owner}"
                channels.append(_channel(item, f"{name}_actual_speed", "rotational speed", reason))
    return channels


def _axis_feeds(values: list[Item]) -> list[ProposedChannel]:
    of_axis: dict[str, list[Item]] = {}
    for item in values:
        if item.type in _AXIS_SPEED:
            of_axis.setdefault(item.component_name, []).append(item)
    channels = []
    for axis, items in of_axis.items():
        channel = _command(items, f"feed_{_slug(axis)}", "feed")
        item = next(item for item in items if item.name == channel.native)
        linear = item.type == "AXIS_FEEDRATE" and item.unit not in ("DEGREE/SECOND", "DEGREE/MINUTE")
        channels.append(channel if linear else replace(channel, quantity="rotational speed"))
    return channels


def _path(values: list[Item]) -> list[ProposedChannel]:
    """The feed along the path: where no axis tells its own, or where it is commanded."""
    along = [item for item in values if item.type == "PATH_FEEDRATE"]
    of_axes = any(item.type == "AXIS_FEEDRATE" for item in values)
    if not along or (of_axes and not any(item.subtype in _COMMANDED for item in along)):
        return []
    return [_command(along, "feed_path", "feed", "feed along the path")]


def _overrides(values: list[Item], spindles: _Spindles) -> list[ProposedChannel]:
    channels: dict[str, ProposedChannel] = {}
    for item in values:
        if item.type in _TYPES["feed_overrides"] and item.subtype != "JOG":
            name = "rapid_override" if item.subtype == "RAPID" else "feed_override"
        elif item.type in _TYPES["spindle_overrides"]:
            name = f"{_part(item, spindles) or 'spindle'}_override"
        else:
            continue
        if name not in channels or item.type.startswith("PATH"):
            channels[name] = _channel(item, name, "override", f"{item.type} {item.subtype}".strip(), command=True)
    return list(channels.values())


def _unambiguous(channels: list[ProposedChannel]) -> list[ProposedChannel]:
    """Channels that would share a name are named after their items instead."""
    times = Counter(channel.channel for channel in channels)
    kept: dict[str, ProposedChannel] = {}
    for channel in channels:
        name = channel.channel
        if times[name] > 1:
            name = _item_name(channel.native, name.rpartition("_")[2])
        kept.setdefault(name, replace(channel, channel=name))
    return list(kept.values())


def _name_prefix(item: Item) -> str:
    """How the name of a speed begins: s1 of both `S1speed` and `S1cmd`."""
    name = _slug(item.name)
    for _ in range(2):
        for usual in ("speed", "rpm", "act", "cmd", "com", "prog", "set"):
            name = name.removesuffix(usual).strip("_")
    return name


def _item_name(native: str, ending: str) -> str:
    """A name from that of the item: `S2load` becomes s2_load, `Srpm` s_speed."""
    name = _slug(native)
    for usual in (ending, "rpm", "frt", "act"):
        name = name.removesuffix(usual)
    return f"{name.strip('_')}_{ending}".strip("_")


def native_range(quantity: str, item: Item, where: str) -> tuple[float, float] | None:
    """The plausible range in the unit of the item; wide enough that only damaged readings lie outside."""
    valid = facts_of(quantity).valid
    if valid is None:
        return None
    scale, offset = conversion(QUANTITIES[quantity], unit_of(item, where))
    return valid[0] * scale + offset, valid[1] * scale + offset


def _slug(text: str) -> str:
    """A channel name from any text."""
    return re.sub(r"[^a-z0-9]+", "_", text.strip().lower()).strip("_") or "item"


class DeviceMapping(MappingFile):
    """What a user says about a device; `crossfeed data template --from Devices.xml` writes one."""

    device: str | None = None
    schema_: Schema | None = Field(default=None, alias="schema")
    columns: tuple[ColumnEntry, ...] = Field(min_length=1)
    period: float | None = Field(default=None, gt=0)

    def channels(
        self, items: Mapping[str, Item], proposal: Proposal, where: str
    ) -> tuple[Schema, tuple[NativeColumn, ...]]:
        """Schema and columns; without a schema of its own, quantities and roles follow from the types of items."""
        natives = match_columns(items, [column.native for column in self.columns if column.native], where)
        # An item that was not proposed beside a better one, such as an actual feed, is known by itself.
        alone = [channel for name in natives.values() for channel in propose({name: items[name]}).channels]
        proposed = {channel.native: channel for channel in (*alone, *proposal.channels)}
        schema = self.schema_ or self._from_items(natives, proposed)
        columns = []
        for column in self.columns:
            channel = schema.channel(column.channel)
            if column.native is None:
                columns.append(NativeColumn("", column.channel, column.unit or channel.unit, constant=column.constant))
            else:
                item = items[natives[column.native]]
                channel_there = proposed.get(item.name) if column.unit is None else None
                valid = column.valid or (native_range(channel_there.quantity, item, where) if channel_there else None)
                columns.append(NativeColumn(item.name, column.channel, column.unit or unit_of(item, where), valid))
        return schema, tuple(columns)

    def _from_items(self, natives: Mapping[str, str], proposed: Mapping[str, ProposedChannel]) -> Schema:
        """A schema of the chosen items under their new names."""
        sensors: list[Channel] = []
        commands: list[Channel] = []
        for column in self.columns:
            proposal = proposed.get(natives[column.native]) if column.native else None
            if proposal is None:
                raise ConfigError(
                    f"What '{column.channel}' is cannot be told from the data item '{column.native or 'a constant'}'.",
                    expected="an item of a known type (load, temperature, current, power, torque, speed, feed)",
                    remedy="Give the mapping a 'schema' with the quantity of this channel.",
                )
            (commands if proposal.command else sensors).append(channel_of(column.channel, proposal.quantity))
        return Schema.from_mapping(
            {"name": self.machine, "sensors": sensors, "commands": commands},
            origin="The list of columns in the mapping",
        )
