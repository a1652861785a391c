"""A queue with a limit: when the reader is too slow, the oldest samples go, and they are counted."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from crossfeed.live.source import Arrival, LiveSource, Sample

LONGEST = 100_000


class BoundedQueue:
    """Between the source and whoever reads it, inside one event loop."""

    def __init__(self, longest: int = LONGEST) -> None:
        self.longest, self.dropped = longest, 0
        self._waiting: deque[Arrival] = deque()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, arrival: Arrival) -> None:
        """Never waits; notices and marks are not dropped."""
        if len(self._waiting) >= self.longest:
            oldest = next((index for index, one in enumerate(self._waiting) if isinstance(one, Sample)), None)
            if oldest is not None:
                del self._waiting[oldest]
                self.dropped += 1
        self._waiting.append(arrival)
        self._filled.set()

    async def take(self, timeout_s: float) -> list[Arrival]:
        """Everything that waits; an empty list when nothing came within the time."""
        try:
            # Not `wait_for`, which in Python 3.11 can swallow a cancellation that comes together with the result.
            async with asyncio.timeout(timeout_s):
                await self._filled.wait()
        except TimeoutError:
            return []
        taken = list(self._waiting)
        self._waiting.clear()
        self._filled.clear()
        return taken


@asynccontextmanager
async def listening(source: LiveSource, put: Callable[[Arrival], None]) -> AsyncIterator[asyncio.Task[None]]:
    """Hand on whatever the source tells, in a task of its own, until the block ends; then the source is closed."""

    async def listen() -> None:
        async for arrival in source.arrivals():
            put(arrival)

    task = asyncio.create_task(listen())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
        await source.close()
