"""A connection that is taken up again whenever it is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain, repeat

from crossfeed.live.source import Arrival, Notice
from crossfeed.machines.declaration import MICROSECONDS


def backoff() -> Iterator[float]:
    """Seconds to wait before the next attempt: 0.25, doubled every time, at most 2.

    Rows are lost as long as a returned server waits.
    """
    return chain((0.25, 0.5, 1.0), repeat(2.0))


async def reconnecting(
    connect: Callable[[], AsyncIterator[Arrival]], errors: tuple[type[Exception], ...], back: str
) -> AsyncIterator[Arrival]:
    """What one connection after the other tells; a loss by one of these errors, and the return, are told once each."""
    lost, waits = False, backoff()
    while True:
        try:
            async for arrival in connect():
                if lost:
                    lost, waits = False, backoff()
                    yield Notice("reconnect", back)
                yield arrival
        except errors as error:
            if not lost:
                yield Notice("degraded", f"the connection was lost: {reason(error)}")
            lost = True
            await asyncio.sleep(next(waits))


def reason(error: BaseException) -> str:
    """The first line of an error, or its type where it says nothing."""
    return str(error).partition("\n")[0] or type(error).__name__


def silence(begin: int, end: int) -> Notice:
    """The gap between two source times, between which nothing was heard."""
    return Notice("gap", f"nothing was heard for {(end - begin) / MICROSECONDS:.1f} s", begin, end)
