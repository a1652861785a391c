"""What the nodes, topics and metrics of a live source mean, in a mapping, and the one that `live discover` proposes."""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field

from crossfeed.configuration import CheckedForm
from crossfeed.errors import SchemaError
from crossfeed.live.source import LINE, OVERRIDES, live_segmentation
from crossfeed.logs.declaration import PROGRAM, LogFormat, Segmentation
from crossfeed.logs.mapping import ColumnMapping, MappedColumn
from crossfeed.logs.proposal import STATES, LoggedSignal, find_columns, read_name
from crossfeed.schema import canonical


class States(CheckedForm):
    """Where the control tells what it is doing."""

    program: str | None = None
    line: str | None = None
    feed_override: str | None = None
    rapid_override: str | None = None
    spindle_override: str | None = None

    def names(self) -> dict[str, str]:
        """Native name -> name under which it is told."""
        name_of = {"program": PROGRAM, "line": LINE, **OVERRIDES}
        return {native: name_of[field] for field, native in self.model_dump().items() if native is not None}


class LiveMapping(ColumnMapping):
    """A user's description of a live source."""

    states: States = States()
    period: float = Field(default=1.0, gt=0)
    sampling_ms: float = Field(default=100.0, gt=0)
    publishing_ms: float = Field(default=250.0, gt=0)
    gap_s: float = Field(default=10.0, gt=0)

    def log_format(self, title: str) -> LogFormat:
        """What the source will tell."""
        return LogFormat(
            name="live",
            title=title,
            machine=self.machine,
            schema=self.schema_,
            columns=self.native_columns(),
            period=self.period,
            segmentation=live_segmentation(Segmentation(), self.gap_s),
            read=lambda log_format, path: iter(()),  # noqa: ARG005 (it is heard, not read)
            change_driven=True,
        )

    def names(self) -> dict[str, str]:
        """Native name -> channel or state, of everything that is to be listened to."""
        return {c.native: c.channel for c in self.columns if c.native} | self.states.names()


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A variable of a server or a value of a broker: its id, the names on the way to it, the unit it states."""

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


def propose_mapping(machine: str, nodes: Iterable[SourceNode]) -> MappingProposal:
    """Channels of the canonical schema for the nodes of a machine; the first node that fits a channel is taken."""
    schema = canonical()
    states: dict[str, str] = {}
    others: dict[str, SourceNode] = {}
    for node in nodes:
        owner, last = (node.path[-2] if len(node.path) > 1 else ""), node.path[-1]
        state = _state(owner, last)
        if state is not None and state not in states:
            states[state] = node.node_id
        else:
            others[node.node_id] = node
    signals = {
        key: LoggedSignal(read_name(" ".join(node.path[-2:])), node.unit)
        for key, node in others.items()
        if node.numeric
    }
    proposed = find_columns(signals, drive_named=True)
    taken = {channel.native for channel in proposed}
    unused = [node.name for key, node in others.items() if key not in taken]
    if not any(channel.channel in schema.sensor_names for channel in proposed):
        raise SchemaError(
            f"None of the variables of the source is a canonical sensor: {', '.join(unused[:12]) or 'none'}.",
            expected="powers, torques, currents, temperatures of spindle and axes",
            remedy="Write a mapping by hand, with a schema of your own; docs/live.md has an example.",
        )
    remarks = {channel.channel: f"{others[channel.native].name}: {channel.reason}" for channel in proposed}
    columns = [MappedColumn(native=c.native, channel=c.channel, unit=c.unit) for c in proposed]
    # Commands that the source does not tell stand still, as on a machine that lacks them.
    columns += [MappedColumn(channel=name, constant=0.0) for name in schema.command_names if name not in remarks]
    mapping = LiveMapping(machine=machine, columns=tuple(columns), states=States(**states))
    return MappingProposal(mapping, remarks, unused)


def _state(owner: str, last: str) -> str | None:
    """The state that a variable of OPC 40502 and 40501 tells."""
    if last == "CmdOverride" and "spindle" in owner.lower():
        return "spindle_override"
    return None if last == "Name" and "program" not in owner.lower() else STATES.get(last)
