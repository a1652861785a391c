"""An OPC UA server whose nodes are those of OPC 40502 (CNC), with the drives' own values beside them."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crossfeed.errors import need
from crossfeed.logs.declaration import MICROSECONDS
from crossfeed.schema import canonical
from crossfeed.sim.servers.serve import SimulatedFeed, SimulatedServer, Step

CNC_URI = "http://opcfoundation.org/UA/CNC"
APPLICATION_URI = "urn:crossfeed:simulated:machine"
_UNITS = {
    "A": 4279632, "N m": 5132359, "kW": 4937556, "degC": 4408652, "V": 5655636, "%": 20529, "rpm": 5394509,
    "mm/min": 5131865,
}  # fmt: skip
_ENDINGS = {
    "current": "ActCurrent", "torque": "ActTorque", "power": "ActPower", "motor_temp": "ActTemperature",
    "dc_voltage": "DcLinkVoltage", "mod_depth": "ModulationDepth",
}  # fmt: skip


def node_path(channel: str) -> tuple[str, ...]:
    """Where a channel stands: CncSpindleList/Spindle/ActPower, CncAxisList/X/CmdFeedrate."""
    if channel == "spindle_speed":
        return "CncSpindleList", "Spindle", "CmdSpeed"
    if channel.startswith("feed_"):
        return "CncAxisList", channel[-1].upper(), "CmdFeedrate"
    drive, _, ending = channel.partition("_")
    if drive == "ambient":
        return "Environment", "AmbientTemperature"
    if drive == "spindle":
        return "CncSpindleList", "Spindle", _ENDINGS[ending]
    return "CncAxisList", drive.upper(), _ENDINGS[ending]


class OpcUaServer(SimulatedServer):
    """The address space is built once a start; with a certificate, only secured endpoints are offered."""

    def __init__(
        self,
        feed: SimulatedFeed,
        port: int,
        certificate: Path | None = None,
        key: Path | None = None,
        users: dict[str, str] | None = None,
    ) -> None:
        self.address = f"opc.tcp://127.0.0.1:{port}/crossfeed"
        self._feed, self._certificate, self._key, self._users = feed, certificate, key, users
        self._server: Any = None
        self._nodes: dict[str, Any] = {}

    async def start(self) -> None:
        asyncua = need("asyncua", "An OPC UA server", "live")
        ua = asyncua.ua
        manager = _Users(self._users) if self._users else None
        server = asyncua.Server(user_manager=manager)
        await server.init()
        server.set_endpoint(self.address)
        server.set_server_name(f"crossfeed {self._feed.name}")
        await server.set_application_uri(APPLICATION_URI)
        if self._certificate is not None and self._key is not None:
            await server.load_certificate(str(self._certificate))
            await server.load_private_key(str(self._key))
            policies = ua.SecurityPolicyType
            server.set_security_policy(
                [
                    policies.Basic256Sha256_SignAndEncrypt,
                    policies.Basic256Sha256_Sign,
                    policies.Aes256Sha256RsaPss_SignAndEncrypt,
                ]
            )
        else:
            server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
        if self._users:
            server.set_identity_tokens([ua.UserNameIdentityToken])
        space = await server.register_namespace(CNC_URI)
        await self._build(server, space, ua)
        await server.start()
        self._server = server

    async def _build(self, server: Any, space: int, ua: Any) -> None:
        machine = await server.nodes.objects.add_object(space, self._feed.name)
        root = await machine.add_object(space, "CncInterface")
        folders: dict[tuple[str, ...], Any] = {}

        async def variable(path: tuple[str, ...], value: Any, unit: str | None) -> Any:
            parent = root
            for depth in range(1, len(path)):
                if path[:depth] not in folders:
                    folders[path[:depth]] = await parent.add_object(space, path[depth - 1])
                parent = folders[path[:depth]]
            node_id = ua.NodeId(".".join((self._feed.name, *path)), space)
            node = await parent.add_variable(node_id, ua.QualifiedName(path[-1], space), value)
            if unit is not None:
                information = ua.EUInformation()
                information.UnitId, information.DisplayName = _UNITS[unit], ua.LocalizedText(unit)
                await node.add_property(0, "EngineeringUnits", information)
            return node

        for channel in self._feed.channels:
            self._nodes[channel] = await variable(node_path(channel), 0.0, canonical().channel(channel).unit)
        for name, value in (
            ("ActProgramName", ""), ("ActProgramLine", 0), ("CmdOverride", 100.0), ("RpdOverride", 100.0),
        ):  # fmt: skip
            self._nodes[name] = await variable(("CncChannelList", "Channel1", name), value, None)

    async def tell(self, step: Step, stamp: int) -> None:
        ua = need("asyncua", "An OPC UA server", "live").ua
        when = datetime.fromtimestamp(stamp / MICROSECONDS, UTC).replace(tzinfo=None)
        now = datetime.now(UTC).replace(tzinfo=None)
        values: dict[str, Any] = dict(step.values)
        values |= {"ActProgramName": step.program, "ActProgramLine": step.line}
        values |= {"CmdOverride": step.feed_override, "RpdOverride": 100.0}
        for name, value in values.items():
            status = ua.StatusCodes.BadSensorFailure if name in step.missing else ua.StatusCodes.Good
            variant = ua.Variant(value, _variant_type(ua, value))
            data_value = ua.DataValue(variant, ua.StatusCode(status), SourceTimestamp=when, ServerTimestamp=now)
            await self._server.write_attribute_value(self._nodes[name].nodeid, data_value)
        await asyncio.sleep(0)

    async def vanish(self) -> None:
        await self._server.bserver.stop()

    async def return_(self) -> None:
        await self._server.bserver.start()

    async def stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop()


def _variant_type(ua: Any, value: Any) -> Any:
    types = ua.VariantType
    return types.String if isinstance(value, str) else types.Int64 if isinstance(value, int) else types.Double


class _Users:
    """Names and passwords that may connect."""

    def __init__(self, users: dict[str, str]) -> None:
        self._users = users

    def get_user(self, iserver: Any, username: Any = None, password: Any = None, certificate: Any = None) -> Any:  # noqa: ARG002
        rules = need("asyncua.crypto.permission_rules", "An OPC UA server", "live")
        given = password.decode() if isinstance(password, bytes) else password
        if username in self._users and self._users[username] == given:
            return rules.User(role=rules.UserRole.User)
        return None
