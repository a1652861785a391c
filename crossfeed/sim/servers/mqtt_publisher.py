"""An MQTT broker on the loopback address, and a simulated machine that publishes to it: JSON or Sparkplug B."""

import asyncio
import json
import struct
from contextlib import suppress
from typing import Any

from crossfeed.errors import need
from crossfeed.live.mqtt import BYTES, FIXED64, VARINT, Metric, Payload
from crossfeed.sim.servers.opcua_server import node_path
from crossfeed.sim.servers.serve import SimulatedFeed, SimulatedServer, Step

_GROUP = "crossfeed"
_REBIRTH = 50  # steps between two births: a listener that comes late, and may not ask, hears the next one


_DOUBLE, _STRING = 10, 12  # data types of Sparkplug


class MqttPublisher(SimulatedServer):
    """JSON: one message a step on NAME/state. Sparkplug: a birth with aliases, then what changed."""

    def __init__(self, feed: SimulatedFeed, port: int, sparkplug: bool) -> None:
        self._feed, self._port, self._sparkplug = feed, port, sparkplug
        topic = f"spBv1.0/{_GROUP}/#" if sparkplug else f"{feed.name}/#"
        self.address = f"mqtt://127.0.0.1:{port}/{topic}"
        self._broker: Any = None
        self._client: Any = None
        self._sequence = self._steps = 0
        self._born = False

    async def start(self) -> None:
        amqtt, aiomqtt = need("amqtt.broker", "An MQTT broker", "live"), need("aiomqtt", "MQTT", "live")
        config = {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{self._port}"}},
            "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
        }
        self._broker = amqtt.Broker(config)
        await self._broker.start()
        self._client = aiomqtt.Client("127.0.0.1", self._port)
        await self._client.__aenter__()
        self._born = False

    async def stop(self) -> None:
        client, broker = self._client, self._broker
        self._client = self._broker = None
        if client is not None:
            with suppress(Exception):
                await client.__aexit__(None, None, None)
        if broker is not None:
            await broker.shutdown()

    async def tell(self, step: Step, stamp: int) -> None:
        values = {_name(channel): None if channel in step.missing else value for channel, value in step.values.items()}
        states = {"Channel/ActProgramName": step.program, "Channel/ActProgramLine": float(step.line)}
        states["Channel/CmdOverride"] = step.feed_override
        if self._sparkplug:
            await self._publish_sparkplug({**values, **states}, stamp // 1000)
        else:
            message = json.dumps({"timestamp": stamp / 1e6, **_nested({**values, **states})})
            await self._publish(f"{self._feed.name}/state", message.encode())
        await asyncio.sleep(0)

    async def _publish_sparkplug(self, values: dict[str, Any], milliseconds: int) -> None:
        aliases = {name: number for number, name in enumerate(values, start=1)}
        self._steps = (self._steps + 1) % _REBIRTH
        if not self._born or self._steps == 0:
            await self._send("NBIRTH", [Metric("bdSeq", 0.0, milliseconds)], milliseconds, first=True)
            birth = [Metric(name, value, milliseconds, aliases[name]) for name, value in values.items()]
            await self._send("DBIRTH", birth, milliseconds)
            self._born = True
        metrics = [Metric(None, value, milliseconds, aliases[name]) for name, value in values.items()]
        await self._send("DDATA", metrics, milliseconds)

    async def die(self) -> None:
        """Say that the device is gone, and be born again with the next step."""
        topic = f"spBv1.0/{_GROUP}/DDEATH/edge/{self._feed.name}"
        await self._publish(topic, encode(Payload(None, (), self._following())))
        self._born = False

    async def _send(self, message_type: str, metrics: list[Metric], milliseconds: int, first: bool = False) -> None:
        if first:
            self._sequence = -1
        device = "" if message_type.startswith("N") else f"/{self._feed.name}"
        message = encode(Payload(milliseconds, tuple(metrics), self._following()))
        await self._publish(f"spBv1.0/{_GROUP}/{message_type}/edge{device}", message)

    async def _publish(self, topic: str, message: bytes) -> None:
        """At most once: what a broker that is gone does not take is lost, as it would be on a machine."""
        client = self._client
        if client is not None:
            with suppress(need("aiomqtt", "MQTT", "live").MqttError):
                await client.publish(topic, message, qos=0)

    def _following(self) -> int:
        self._sequence = (self._sequence + 1) % 256
        return self._sequence


def _name(channel: str) -> str:
    """Spindle/ActPower, X/CmdFeedrate, as on the OPC UA server."""
    return "/".join(node_path(channel)[-2:])


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, value in flat.items():
        owner, _, last = name.partition("/")
        content.setdefault(owner, {})[last] = value
    return content


def encode(payload: Payload) -> bytes:
    """A Sparkplug B payload, as `crossfeed.live.mqtt` reads it."""
    content = b"" if payload.time is None else _key(1, VARINT) + _varint(payload.time)
    for metric in payload.metrics:
        packed = _packed(metric)
        content += _key(2, BYTES) + _varint(len(packed)) + packed
    return content + (b"" if payload.sequence is None else _key(3, VARINT) + _varint(payload.sequence))


def _packed(metric: Metric) -> bytes:
    content = b""
    if metric.name is not None:
        content += _text(1, metric.name)
    if metric.alias is not None:
        content += _key(2, VARINT) + _varint(metric.alias)
    if metric.time is not None:
        content += _key(3, VARINT) + _varint(metric.time)
    data_type = _STRING if isinstance(metric.value, str) else _DOUBLE
    content += _key(4, VARINT) + _varint(data_type)
    if metric.historical:
        content += _key(5, VARINT) + b"\x01"
    if metric.value is None:
        return content + _key(7, VARINT) + b"\x01"
    if isinstance(metric.value, str):
        return content + _text(15, metric.value)
    return content + _key(13, FIXED64) + struct.pack("<d", float(metric.value))


def _varint(value: int) -> bytes:
    parts: list[int] = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _text(number: int, text: str) -> bytes:
    content = text.encode()
    return _key(number, BYTES) + _varint(len(content)) + content
