"""OPC UA: subscribe to mapped nodes, notice what was lost, come back when the server does. Read only."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crossfeed.errors import ConfigError, LogError, need
from crossfeed.live.mapping import LiveMapping, MappingProposal, SourceNode, propose_mapping
from crossfeed.live.open_source import Credentials, Security, secure
from crossfeed.live.source import ALIVE, Arrival, ConnectedSource, Notice, Sample, reason, sample_of, silence
from crossfeed.logs.declaration import MICROSECONDS, PROGRAM, LogFormat

_WATCH_S, _ANSWER_S = 1.0, 4.0
_QUEUE = 200  # values a server keeps of each node between two publications
_OVERFLOW = 0x0480  # bits of a status code: the server's queue was full, and values before this one are lost
_DEEPEST, _MOST_NODES, _LONGEST_S = 10, 5000, 60.0


class OpcUaSource(ConnectedSource):
    """One server, one subscription; a node that the server does not know costs that channel alone."""

    def __init__(
        self,
        address: str,
        mapping: Path | None = None,
        security: Security | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.address, self.title = address, f"the OPC UA server {address}"
        if credentials is not None and security is None:
            raise ConfigError(
                "A password would travel in the clear: the connection is not secured.",
                expected="--security Basic256Sha256 with --certificate, --key and --trust",
            )
        self._mapping = None if mapping is None else LiveMapping.from_yaml(mapping)
        self._security, self._credentials = security, credentials
        self._arrivals: asyncio.Queue[Arrival] = asyncio.Queue()
        self._client: Any = None
        self._names: dict[Any, str] = {}
        self._degraded: set[str] = set()
        self._last_stamps: dict[str, int] = {}
        self._awaited: set[str] | None = None
        self._waiting: list[tuple[str, Any]] = []

    async def open(self) -> LogFormat:
        """Connect once, and without a mapping propose one."""
        # In a thread: it takes more than a second, in which a page may already be asked for.
        await asyncio.to_thread(need, "asyncua", "OPC UA", "live")
        if self._mapping is None:
            self._mapping = (await self.propose()).mapping
        else:
            await (await self._connect()).disconnect()
        return self._mapping.log_format(self.title)

    async def close(self) -> None:
        if self._client is not None:
            with suppress(*_connection_errors()):
                await self._client.disconnect()

    async def propose(self) -> MappingProposal:
        """Look at the server and propose a mapping."""
        client = await self._connect()
        try:
            return await discover(client)
        finally:
            await client.disconnect()

    async def _connect(self) -> Any:
        asyncua = need("asyncua", "OPC UA", "live")
        client = asyncua.Client(self.address, timeout=_ANSWER_S)
        if self._credentials is not None:
            client.set_user(self._credentials.user)
            client.set_password(self._credentials.password)
        try:
            if self._security is not None:
                await secure(client, self._security)
            await client.connect()
        except (OSError, TimeoutError) as error:
            raise LogError(
                f"There is no OPC UA server at {self.address}: {error or 'no answer'}.",
                expected="an address such as opc.tcp://192.168.0.10:4840 that answers",
            ) from error
        except asyncua.ua.UaError as error:
            raise LogError(
                f"The OPC UA server at {self.address} and we do not trust each other: {reason(error)}.",
                expected="a server certificate in the trust list, and a user and a certificate that the server accepts",
            ) from error
        return client

    def losses(self) -> tuple[type[Exception], ...]:
        return _connection_errors()

    async def connection(self) -> AsyncIterator[Arrival]:
        """What the server tells, until it no longer answers."""
        client = self._client = await self._connect()
        try:
            await self._subscribe(client)
            # The server's own clock, read every second, is the heartbeat: what did not change is still in force.
            clock = client.get_node(need("asyncua", "OPC UA", "live").ua.ObjectIds.Server_ServerStatus_CurrentTime)
            loop = asyncio.get_running_loop()
            watch = loop.time() + _WATCH_S
            while True:
                try:
                    async with asyncio.timeout_at(watch):
                        arrival = await self._arrivals.get()
                except TimeoutError:
                    async with asyncio.timeout(_ANSWER_S):
                        now = await clock.read_value()
                    self._alive(_stamp(now))
                    watch = loop.time() + _WATCH_S
                else:
                    yield arrival
        finally:
            self._client = None
            with suppress(*_connection_errors()):
                await client.disconnect()

    async def _subscribe(self, client: Any) -> None:
        assert self._mapping is not None
        ua = need("asyncua", "OPC UA", "live").ua
        names = self._mapping.names()
        try:
            self._names = {ua.NodeId.from_string(native): name for native, name in names.items()}
        except ua.UaError as error:
            raise ConfigError(
                f"The mapping names a node that OPC UA cannot: {reason(error)}.",
                expected="node ids such as ns=2;s=Spindle.Power",
            ) from error
        self._awaited, self._waiting = set(names.values()), []
        subscription = await client.create_subscription(self._mapping.publishing_ms, self)
        nodes = [client.get_node(native) for native in names]
        results = await subscription.subscribe_data_change(
            nodes, queuesize=_QUEUE, sampling_interval=self._mapping.sampling_ms
        )
        pairs = zip(names.values(), results, strict=True)
        unknown = [(name, result) for name, result in pairs if not isinstance(result, int)]
        for name, result in unknown:
            if self._awaited is not None:
                self._awaited.discard(name)
            self._degrade(name, f"the server does not know the node of {name}: {result.name}")
        if len(unknown) == len(results):
            raise LogError("The server knows none of the mapped nodes.", remedy="Discover the nodes again.")

    def _alive(self, stamp: int) -> None:
        self._settle()
        if self.newest and stamp > self.newest + round(_WATCH_S * MICROSECONDS):
            self.newest = stamp
            self._put(Sample(ALIVE, 1.0, stamp))

    def datachange_notification(self, node: Any, _: Any, data: Any) -> None:
        """What the subscription calls for every change."""
        name = self._names.get(node.nodeid)
        if name is not None:
            self.tell(name, data.monitored_item.Value)

    def status_change_notification(self, _: Any) -> None:
        """The clock that is read every second finds out by itself that the subscription ended."""

    def tell(self, name: str, data: Any) -> None:
        """One notification; the first of each node says what is in force, and its stamp may be of long ago."""
        if self._awaited is None:
            self._tell(name, data, _stamp_of(data))
            return
        self._waiting.append((name, data))
        self._awaited.discard(name)
        if not self._awaited:
            self._settle()

    def _settle(self) -> None:
        """Every node has sent its value, or a second has passed: the first values are in force from now on."""
        if self._awaited is None or not self._waiting:
            return
        waiting, self._waiting, self._awaited = self._waiting, [], None
        stamps = [_stamp_of(data) for _, data in waiting]
        begin = max([*stamps, self.newest])
        if 0 < self.lost_at < begin:
            self._put(silence(self.lost_at, begin))
        first: set[str] = set()
        for (name, data), stamp in zip(waiting, stamps, strict=True):
            self._tell(name, data, stamp if name in first else begin)
            first.add(name)

    def _tell(self, name: str, data: Any, stamp: int) -> None:
        value = data.Value.Value if data.Value is not None else None
        good = data.StatusCode is None or not data.StatusCode.is_bad()
        self.newest = max(stamp, self.newest)
        if data.StatusCode is not None and data.StatusCode.value & _OVERFLOW == _OVERFLOW:
            begin = self._last_stamps.get(name, stamp)
            seconds = (stamp - begin) / MICROSECONDS
            self._put(Notice("gap", f"the server lost values of {name} within {seconds:.1f} s", begin, stamp, name))
        self._last_stamps[name] = stamp
        if good:
            self._degraded.discard(name)
        else:
            self._degrade(name, f"{name} has no good value: {data.StatusCode.name}")
        self._put(sample_of(name, value if good or name == PROGRAM else None, stamp))

    def _degrade(self, name: str, text: str) -> None:
        """Say once that a channel cannot be had, until it is good again."""
        if name not in self._degraded:
            self._degraded.add(name)
            self._put(Notice("degraded", text, channel=name))

    def _put(self, arrival: Arrival) -> None:
        self._arrivals.put_nowait(arrival)


def _connection_errors() -> tuple[type[Exception], ...]:
    """What a lost or refused connection raises: the network (time running out included), asyncua, ourselves."""
    return (OSError, LogError, need("asyncua", "OPC UA", "live").ua.UaError)


def _stamp_of(data: Any) -> int:
    return _stamp(data.SourceTimestamp or data.ServerTimestamp)


def _stamp(moment: datetime) -> int:
    """Microseconds since 1970 of a time that OPC UA gives in UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * MICROSECONDS)


async def discover(client: Any) -> MappingProposal:
    """Walk through the objects of a server and propose channels for its variables."""
    ua = need("asyncua", "OPC UA", "live").ua
    nodes: list[SourceNode] = []
    machine = ""
    children = await client.nodes.objects.get_children()
    stack: list[tuple[Any, tuple[str, ...], int]] = [(child, (), 0) for child in reversed(children)]
    begin = time.monotonic()
    while stack and len(nodes) < _MOST_NODES and time.monotonic() - begin < _LONGEST_S:
        node, path, depth = stack.pop()
        if node.nodeid.NamespaceIndex == 0 and node.nodeid.Identifier in (
            ua.ObjectIds.Server, ua.ObjectIds.Aliases, ua.ObjectIds.Locations, ua.ObjectIds.Quantities,
        ):  # fmt: skip
            continue
        name = (await node.read_browse_name()).Name
        node_class = await node.read_node_class()
        if node_class == ua.NodeClass.Variable:
            nodes.append(await _variable(node, (*path, name), ua))
        elif depth < _DEEPEST:
            if name not in ("Machines", "DeviceSet") and not machine:
                machine = name
            stack += [(child, (*path, name), depth + 1) for child in reversed(await node.get_children())]
    return propose_mapping(machine or "machine", nodes)


async def _variable(node: Any, path: tuple[str, ...], ua: Any) -> SourceNode:
    unit = None
    for child in await node.get_properties():
        if (await child.read_browse_name()).Name == "EngineeringUnits":
            information = await child.read_value()
            unit = information.DisplayName.Text if information is not None else None
    # By its type, not by its value: a sensor that has failed just now still is one.
    variant = await node.read_data_type_as_variant_type()
    numbers = ("SByte", "Byte", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float", "Double")
    return SourceNode(node.nodeid.to_string(), path, unit, variant in [ua.VariantType[name] for name in numbers])
