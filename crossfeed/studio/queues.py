"""How questions wait for their answers: quick forecasts share passes, long work has threads, slow facts are kept."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from crossfeed.errors import CrossfeedError
from crossfeed.serving.shared_pass import AnswerAll, SharedPass
from crossfeed.studio.metrics import Metrics
from crossfeed.studio.refusal import RefusalError

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Batcher(SharedPass[Question, Answer]):
    """A shared pass that refuses when too many wait."""

    def __init__(self, answer_all: AnswerAll[Question, Answer], most: int, waiting: int, metrics: Metrics) -> None:
        def counted(questions: Sequence[Question]) -> Sequence[Answer | Exception]:
            metrics.passed(len(questions))
            return answer_all(questions)

        super().__init__(counted, most)
        self.waiting, self.metrics = waiting, metrics

    async def ask(self, question: Question) -> Answer:
        """Wait for the answer, or be sent away."""
        if len(self) >= self.waiting:
            raise RefusalError(503, f"{len(self)} forecasts wait already.", remedy="Try again in a second.")
        try:
            return await super().ask(question)
        except asyncio.CancelledError:
            self.metrics.cancelled()
            raise


class StoppedError(CrossfeedError):
    """Raised inside a piece of work that nobody waits for any more."""


class LongWork:
    """Runs functions that ask `go_on` now and then."""

    def __init__(self, at_once: int, waiting: int, seconds: float, metrics: Metrics) -> None:
        self.at_once, self.waiting, self.seconds, self.metrics = at_once, waiting, seconds, metrics
        self._threads = ThreadPoolExecutor(at_once, "what-ifs")
        self.inside = 0  # pieces of work that are under way or wait

    async def do(self, work: Callable[[Callable[[], None]], Answer]) -> Answer:
        """The result; cancelling this, or its time running out, ends the work at its next question."""
        if self.inside >= self.at_once + self.waiting:
            raise RefusalError(503, f"{self.inside} comparisons are under way.", remedy="Try again in some seconds.")
        stopped = threading.Event()

        def go_on() -> None:
            if stopped.is_set():
                raise StoppedError("Nobody waits for this answer any more.")

        self.inside += 1
        future = self._threads.submit(work, go_on)
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


class CachedAnswer(Generic[Answer]):
    """An answer that takes long and changes slowly: computed once for all who ask, and kept for a while."""

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
