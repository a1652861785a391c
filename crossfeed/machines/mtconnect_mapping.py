"""A mapping for an MTConnect device: which of its data items become channels, and under which names."""

from collections.abc import Mapping

from pydantic import Field

from crossfeed.errors import ConfigError
from crossfeed.machines.declaration import NativeColumn
from crossfeed.machines.files import match_columns
from crossfeed.machines.mapping import ColumnEntry, MappingFile
from crossfeed.machines.mtconnect_channels import Proposal, ProposedChannel, native_range, propose
from crossfeed.machines.mtconnect_devices import Item, unit_of
from crossfeed.schema import QUANTITIES, Channel, Schema


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
        alone = [one for name in natives.values() for one in propose({name: items[name]}).channels]
        proposed = {one.item.name: one for one in (*alone, *proposal.channels)}
        own = self.schema_ or self._from_items(natives, proposed)
        columns = []
        for column in self.columns:
            channel = own.channel(column.channel)
            if column.native is None:
                columns.append(NativeColumn("", column.channel, column.unit or channel.unit, constant=column.constant))
            else:
                item = items[natives[column.native]]
                known = proposed.get(item.name)
                valid = column.valid or (native_range(known, where) if known and column.unit is None else None)
                columns.append(NativeColumn(item.name, column.channel, column.unit or unit_of(item, where), valid))
        return own, tuple(columns)

    def _from_items(self, natives: Mapping[str, str], proposed: Mapping[str, ProposedChannel]) -> Schema:
        """A schema of the chosen items under their new names."""
        sensors: list[Channel] = []
        commands: list[Channel] = []
        for column in self.columns:
            one = proposed.get(natives[column.native]) if column.native else None
            if one is None:
                raise ConfigError(
                    f"What '{column.channel}' is cannot be told from the data item '{column.native or 'a constant'}'.",
                    expected="an item of a known type (load, temperature, current, power, torque, speed, feed)",
                    remedy="Give the mapping a 'schema' with the quantity of this channel.",
                )
            channel = Channel(name=column.channel, quantity=one.quantity, unit=QUANTITIES[one.quantity])
            (commands if one.command else sensors).append(channel)
        return Schema.from_mapping(
            {"name": self.machine, "sensors": sensors, "commands": commands},
            origin="The list of columns in the mapping",
        )
