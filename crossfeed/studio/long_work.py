"""Long work in threads: so many at once, so many in the queue, so long, and only while somebody waits for it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from crossfeed.errors import CrossfeedError
from crossfeed.studio.metrics import Metrics
from crossfeed.studio.refusal import RefusalError

Result = TypeVar("Result")


class StoppedError(CrossfeedError):
    """Raised inside a piece of work that nobody waits for any more."""


class LongWork:
    """Runs functions that ask `go_on` now and then."""

    def __init__(self, at_once: int, waiting: int, seconds: float, metrics: Metrics) -> None:
        self.at_once, self.waiting, self.seconds, self.metrics = at_once, waiting, seconds, metrics
        self._threads = ThreadPoolExecutor(at_once, "what-ifs")
        self.inside = 0  # pieces of work that are under way or wait

    async def do(self, work: Callable[[Callable[[], None]], Result]) -> Result:
        """The result; cancelling this, or its time running out, ends the work at its next question."""
        if self.inside >= self.at_once + self.waiting:
            raise RefusalError(503, f"{self.inside} comparisons are under way.", remedy="Try again in some seconds.")
        stopped = threading.Event()

        def go_on() -> None:
            if stopped.is_set():
                raise StoppedError("Nobody waits for this answer any more.")

        def begin() -> Result:
            go_on()
            return work(go_on)

        self.inside += 1
        future = self._threads.submit(begin)
        # The place is free only when the thread is: work that was given up still ends first.
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._leave))
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.seconds)
        except TimeoutError:
            raise RefusalError(
                504,
                f"The answer took longer than {self.seconds:g} s and was given up.",
                remedy="Ask for fewer samples, fewer plans or fewer seconds.",
            ) from None
        except asyncio.CancelledError:
            self.metrics.cancelled()
            raise
        finally:
            stopped.set()

    def _leave(self) -> None:
        self.inside -= 1

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)
