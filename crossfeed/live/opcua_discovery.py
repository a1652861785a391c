"""What an OPC UA server has to tell: its variables, found by walking through its objects."""

import time
from typing import Any

from crossfeed.extras import need
from crossfeed.live.mapping import MappingProposal, SourceNode, propose_mapping

_DEEPEST, _MOST_NODES, _LONGEST_S = 10, 5000, 60.0


async def discover(client: Any) -> MappingProposal:
    """Walk through the objects of a server and propose channels for its variables."""
    ua = need("asyncua", "OPC UA", "live").ua
    found: list[SourceNode] = []
    machine = ""
    children = await client.nodes.objects.get_children()
    stack: list[tuple[Any, tuple[str, ...], int]] = [(child, (), 0) for child in reversed(children)]
    begin = time.monotonic()
    while stack and len(found) < _MOST_NODES and time.monotonic() - begin < _LONGEST_S:
        node, path, depth = stack.pop()
        if node.nodeid.NamespaceIndex == 0 and node.nodeid.Identifier in (
            ua.ObjectIds.Server, ua.ObjectIds.Aliases, ua.ObjectIds.Locations, ua.ObjectIds.Quantities,
        ):  # fmt: skip
            continue
        name = (await node.read_browse_name()).Name
        node_class = await node.read_node_class()
        if node_class == ua.NodeClass.Variable:
            found.append(await _variable(node, (*path, name), ua))
        elif depth < _DEEPEST:
            if name not in ("Machines", "DeviceSet") and not machine:
                machine = name
            stack += [(child, (*path, name), depth + 1) for child in reversed(await node.get_children())]
    return propose_mapping(machine or "machine", found)


async def _variable(node: Any, path: tuple[str, ...], ua: Any) -> SourceNode:
    unit = None
    for child in await node.get_properties():
        if (await child.read_browse_name()).Name == "EngineeringUnits":
            told = await child.read_value()
            unit = told.DisplayName.Text if told is not None else None
    # By its type, not by its value: a sensor that has failed just now still is one.
    variant = await node.read_data_type_as_variant_type()
    numbers = ("SByte", "Byte", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float", "Double")
    return SourceNode(node.nodeid.to_string(), path, unit, variant in [ua.VariantType[name] for name in numbers])
