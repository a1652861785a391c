"""Which nodes of an OPC UA server mean what: the names of OPC 40502 (CNC) and 40501 (machine tools), then any other."""

from collections.abc import Iterable
from dataclasses import dataclass

from crossfeed.errors import SchemaError
from crossfeed.live.mapping import LiveMapping, States
from crossfeed.machines.column_names import read_name
from crossfeed.machines.mapping import MappedColumn
from crossfeed.schema import canonical, convertible

# Browse names of OPC 40502 and 40501 under a spindle, an axis or the channel, with the quantity they have.
_AXIS = {"ActPower": ("power", "kW"), "ActTorque": ("torque", "N m"), "ActCurrent": ("current", "A")}
_SPINDLE = {"CmdSpeed": ("speed", "rpm"), **_AXIS}
_STATES = {
    "ActProgramName": "program", "ActProgramFile": "program", "ActMainProgramName": "program", "Name": "program",
    "ActProgramLine": "line", "ActMainProgramLine": "line", "CmdOverride": "feed_override",
    "FeedOverride": "feed_override", "RpdOverride": "rapid_override", "RapidOverride": "rapid_override",
    "SpindleOverride": "spindle_override",
}  # fmt: skip
_SUFFIXES = {
    "current": "current", "torque": "torque", "power": "power", "temperature": "motor_temp", "voltage": "dc_voltage",
    "modulation depth": "mod_depth",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A variable of a server: its id, the browse names on the way to it, its unit if it tells one."""

    node_id: str
    path: tuple[str, ...]
    unit: str | None
    numeric: bool = True

    @property
    def name(self) -> str:
        return "/".join(self.path)


@dataclass(frozen=True)
class MappingProposal:
    """A proposed mapping, why, and what is left over."""

    mapping: LiveMapping
    remarks: dict[str, str]
    unused: list[str]

    def to_yaml(self) -> str:
        """The mapping as a text to check by hand, with the remarks."""
        mapping = self.mapping
        lines = [f"machine: {mapping.machine}", "schema: canonical", f"period: {mapping.period:g}", "columns:"]
        for column in mapping.columns:
            if column.native is None:
                entry = f"  - {{constant: {column.constant:g}, channel: {column.channel}}}"
            else:
                entry = f'  - {{native: "{column.native}", channel: {column.channel}, unit: "{column.unit}"}}'
            lines.append(f"{entry:<96} # {self.remarks.get(column.channel, '')}")
        states = {name: value for name, value in mapping.states.model_dump().items() if value}
        if states:
            lines.append("states:")
            lines += [f'  {name}: "{value}"' for name, value in states.items()]
        lines.append(f"sampling_ms: {mapping.sampling_ms:g}")
        lines.append(f"publishing_ms: {mapping.publishing_ms:g}")
        lines += [f"# not used: {name}" for name in self.unused]
        return "\n".join(lines) + "\n"


def propose_mapping(machine: str, nodes: Iterable[FoundNode]) -> MappingProposal:
    """Channels of the canonical schema for the nodes of a machine; the first node that fits a channel is taken."""
    schema = canonical()
    columns: dict[str, MappedColumn] = {}
    remarks: dict[str, str] = {}
    states: dict[str, str] = {}
    unused: list[str] = []
    for node in nodes:
        owner, last = (node.path[-2] if len(node.path) > 1 else ""), node.path[-1]
        state = _state(owner, last)
        if state is not None and state not in states:
            states[state] = node.node_id
            continue
        channel, unit, reason = _channel(node, owner, last)
        known = channel in (*schema.sensor_names, *schema.command_names) and channel not in columns
        if not node.numeric or channel is None or not known:
            unused.append(node.name)
            continue
        wanted = schema.channel(channel).unit
        columns[channel] = MappedColumn(native=node.node_id, channel=channel, unit=_fitting(node.unit, unit, wanted))
        remarks[channel] = f"{node.name}: {reason}" + ("" if node.unit else "; the server states no unit, check it")
    ordered = [columns[channel.name] for channel in schema.channels if channel.name in columns]
    if not any(column.channel in schema.sensor_names for column in ordered):
        told = ", ".join(unused[:12]) or "none"
        raise SchemaError(
            f"None of the variables of the source is a canonical sensor: {told}.",
            expected="powers, torques, currents, temperatures of spindle and axes",
            remedy="Write a mapping by hand, with a schema of your own; docs/live.md has an example.",
        )
    # Commands that the source does not tell stand still, as on a machine that lacks them.
    idle = [MappedColumn(channel=name, constant=0.0) for name in schema.command_names if name not in columns]
    mapping = LiveMapping(machine=machine, columns=(*ordered, *idle), states=States(**states))
    return MappingProposal(mapping, remarks, unused)


def _state(owner: str, last: str) -> str | None:
    state = _STATES.get(last)
    if last == "CmdOverride" and "spindle" in owner.lower():
        return "spindle_override"
    return None if last == "Name" and "program" not in owner.lower() else state


def _channel(node: FoundNode, owner: str, last: str) -> tuple[str | None, str | None, str]:
    drive = _drive(owner)
    part, endings = ("spindle", _SPINDLE) if drive == "spindle" else ("axis", _AXIS)
    if drive and last in endings:
        ending, unit = endings[last]
        return f"{drive}_{ending}", unit, f"OPC 40502 {part}"
    said = read_name(f"{owner} {last}")
    where = drive or said.drive
    if where == "ambient" and said.quantity == "temperature":
        return "ambient_temp", said.unit or "degC", "by its name"
    if where in ("x", "y", "z") and said.quantity == "feed" and not said.actual:
        return f"feed_{where}", said.unit or "mm/min", "by its name"
    if where == "spindle" and said.quantity == "rotational speed" and said.commanded:
        return "spindle_speed", said.unit or "rpm", "by its name"
    if where in ("spindle", "x", "y", "z") and said.quantity in _SUFFIXES and not said.commanded:
        return f"{where}_{_SUFFIXES[said.quantity]}", said.unit, "by its name"
    return None, None, node.name


def _drive(owner: str) -> str | None:
    plain = owner.strip().lower()
    if plain in ("x", "y", "z", "x1", "y1", "z1"):
        return plain[0]
    return "spindle" if "spindle" in plain or plain in ("s1", "s", "sp1") else None


def _fitting(stated: str | None, usual: str | None, wanted: str) -> str:
    """The unit that the server states where it fits the quantity, else the usual one."""
    return next((unit for unit in (stated, usual) if unit and convertible(unit, wanted)), wanted)
