"""Real servers for tests, each on a free port of the loopback address."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from crossfeed.live.source import Arrival, Notice, Sample
from crossfeed.sim.servers.serve import SimulatedFeed, SimulatedServer, Step

_HELD: list[socket.socket] = []


def free_port() -> int:
    """A port that stays ours: held without listening, so that nobody else is given it before a server listens there."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    _HELD.append(held)
    return int(held.getsockname()[1])


class Stage:
    """A machine behind a server, told at twenty steps a second of ours; the test decides what goes wrong."""

    def __init__(self, feed: SimulatedFeed, server: SimulatedServer) -> None:
        self.feed, self.server = feed, server
        self.missing: frozenset[str] = frozenset()
        self.told: list[tuple[int, Step]] = []
        self._away = False

    async def run(self) -> None:
        origin = time.time()
        for step in self.feed.steps():
            stamp = round((origin + step.time) * 1_000_000)
            if not self._away:
                step = replace(step, missing=self.missing)
                await self.server.tell(step, stamp)
                self.told.append((stamp, step))
            await asyncio.sleep(0.05)

    async def vanish(self) -> None:
        self._away = True
        await self.server.vanish()

    async def return_(self) -> None:
        await self.server.return_()
        self._away = False


@asynccontextmanager
async def staged(feed: SimulatedFeed, server: SimulatedServer) -> AsyncIterator[Stage]:
    """The machine runs behind the server while the block does."""
    await server.start()
    stage = Stage(feed, server)
    running = asyncio.create_task(stage.run())
    try:
        yield stage
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await server.stop()


def samples(found: Sequence[Arrival], name: str) -> list[Sample]:
    return [one for one in found if isinstance(one, Sample) and one.channel == name]


def notices(found: Sequence[Arrival], kind: str) -> list[Notice]:
    return [one for one in found if isinstance(one, Notice) and one.kind == kind]


async def hear(arrivals: AsyncIterator[Arrival], enough: Callable[[list[Arrival]], object]) -> list[Arrival]:
    """Everything that arrives until there is enough."""
    found: list[Arrival] = []
    async for arrival in arrivals:
        found.append(arrival)
        if enough(found):
            break
    return found
