"""Runs a simulated machine behind a server, at its own pace or faster."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from crossfeed.live.simulated.faults import Fault, Outage, with_faults
from crossfeed.live.simulated.feed import SimulatedFeed, Step
from crossfeed.machines.declaration import MICROSECONDS

ProtocolName = Literal["opcua", "mtconnect", "mqtt", "sparkplug"]


class SimulatedServer(Protocol):
    """A protocol server that is told every step of the machine."""

    address: str

    async def start(self) -> None: ...

    async def tell(self, step: Step, stamp: int) -> None: ...

    async def stop(self) -> None: ...

    async def vanish(self) -> None:
        """Drop every connection and take no new one, as when a cable is pulled."""
        await self.stop()

    async def return_(self) -> None:
        """Take connections again."""
        await self.start()


async def serve(
    feed: SimulatedFeed,
    server: SimulatedServer,
    *,
    speed: float = 1.0,
    faults: Sequence[Fault] = (),
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Tell the server every step until cancelled.

    Stamps begin at the present and run with the machine's time, `speed` times as fast as ours.
    """
    await server.start()
    begin, origin = time.monotonic(), time.time()
    if on_ready is not None:
        on_ready(server.address)
    clock = 0.0
    try:
        for one in with_faults(feed.steps(), faults, feed.sensors[0]):
            if isinstance(one, Outage):
                await server.vanish()
                await asyncio.sleep(one.seconds / speed)
                await server.return_()
                continue
            clock = max(clock, one.time)
            ahead = begin + clock / speed - time.monotonic()
            await asyncio.sleep(max(ahead, 0.0))
            await server.tell(one, round((origin + one.time) * MICROSECONDS))
    finally:
        await server.stop()


def make_server(protocol: ProtocolName, feed: SimulatedFeed, port: int = 0) -> SimulatedServer:
    """The server of a protocol on the loopback address; port 0 takes the protocol's usual one."""
    if protocol == "opcua":
        from crossfeed.live.simulated.opcua_server import OpcUaServer

        return OpcUaServer(feed, port or 4840)
    if protocol == "mtconnect":
        from crossfeed.live.simulated.mtconnect_agent import MtconnectAgent

        return MtconnectAgent(feed, port or 5000)
    from crossfeed.live.simulated.mqtt_publisher import MqttPublisher

    return MqttPublisher(feed, port or 1883, sparkplug=protocol == "sparkplug")
