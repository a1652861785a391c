"""How questions wait for their answers: quick forecasts share passes, long work has threads, slow facts are kept.

Whatever happens to a question is counted.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from crossfeed.errors import CrossfeedError, need
from crossfeed.scenarios.rollout import AnswerAll, SharedPass
from crossfeed.studio.requests import RefusalError

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
LabelledValue = tuple[Mapping[str, str], float]
Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Metrics:
    """Counters of this process in the text format of Prometheus; safe to use from the threads that compute."""

    def __init__(self) -> None:
        client = need("prometheus_client", "The studio", "serve")
        registry = self._registry = client.CollectorRegistry()
        self._client = client
        self._gauges: list[tuple[str, str, Callable[[], Iterable[LabelledValue]]]] = []
        began = time.monotonic()
        up = client.Gauge("crossfeed_up_seconds", "Seconds since the start.", registry=registry)
        up.set_function(lambda: time.monotonic() - began)
        self._requests = client.Counter(
            "crossfeed_requests", "Requests that were answered.", ["route", "status"], registry=registry
        )
        self.refused = client.Counter(
            "crossfeed_refused", "Requests that the gate refused.", ["status"], registry=registry
        )
        self.cancelled = client.Counter(
            "crossfeed_cancelled", "Work stopped because its client left.", registry=registry
        )
        self._seconds = client.Histogram(
            "crossfeed_request_seconds", "Time to the answer.", ["route"], buckets=SECONDS, registry=registry
        )
        self.batches = client.Histogram(
            "crossfeed_batch_size", "Forecasts that shared one pass.", buckets=SIZES, registry=registry
        )
        registry.register(self)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request came to its end."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def watch(self, name: str, meaning: str, read: Callable[[], Iterable[LabelledValue]]) -> None:
        """Show values that `read` gives at each scrape."""
        self._gauges.append((name, meaning, read))

    def collect(self) -> Iterator[Any]:
        """What the registry asks for: CPU time, and the values that are watched."""
        families = self._client.metrics_core
        yield families.CounterMetricFamily("process_cpu_seconds", "CPU time.", value=time.process_time())
        for name, meaning, read in self._gauges:
            samples = list(read())
            labels = [*samples[0][0]] if samples else []
            family = families.GaugeMetricFamily(name, meaning, labels=labels)
            for values, number in samples:
                family.add_metric([values[label] for label in labels], number)
            yield family

    def text(self) -> str:
        """Everything, one sample a line."""
        return str(self._client.generate_latest(self._registry).decode())


class Batcher(SharedPass[Question, Answer]):
    """A shared pass that refuses when too many wait."""

    def __init__(self, answer_all: AnswerAll[Question, Answer], most: int, waiting: int, metrics: Metrics) -> None:
        def counted(questions: Sequence[Question]) -> Sequence[Answer | Exception]:
            metrics.batches.observe(len(questions))
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
            self.metrics.cancelled.inc()
            raise


class StoppedError(CrossfeedError):
    """Raised inside a piece of work whose client left."""


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
            self.metrics.cancelled.inc()
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
