"""Answers that take long and change slowly: computed once for all who ask, and kept for a while."""

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class CachedAnswer(Generic[Answer]):
    """The answer of a function; whoever asks while it is computed waits for the same one."""

    def __init__(self, compute: Callable[[], Answer], seconds: float) -> None:
        self.compute, self.seconds = compute, seconds
        self._task: asyncio.Task[Answer] | None = None
        self._until = 0.0

    async def get(self) -> Answer:
        if self._task is None or (self._task.done() and time.monotonic() >= self._until):
            self._task = asyncio.create_task(self._computed())
        return await asyncio.shield(self._task)

    async def _computed(self) -> Answer:
        try:
            return await asyncio.to_thread(self.compute)
        finally:
            self._until = time.monotonic() + self.seconds
