"""Questions share passes, long work has bounds, and what nobody waits for is not done."""

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from crossfeed.errors import TableError
from crossfeed.studio.queues import Batcher, CachedAnswer, LongWork, Metrics
from crossfeed.studio.requests import RefusalError
from tests.studio.conftest import EndlessWork

pytest.importorskip("prometheus_client", reason="needs the extra 'serve'")


class Held:
    """A function that answers many questions at once, as soon as it may."""

    def __init__(self) -> None:
        self.may, self.began, self.passes = threading.Event(), threading.Event(), list[list[int]]()

    def __call__(self, questions: Sequence[int]) -> list[int | Exception]:
        self.passes.append(list(questions))
        self.began.set()
        assert self.may.wait(60.0)
        return [TableError("odd") if question == 13 else question * 2 for question in questions]


async def _begun(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 60.0)


def test_questions_that_gather_during_a_pass_share_the_next() -> None:
    held = Held()

    async def run() -> list[int | BaseException]:
        batcher: Batcher[int, int] = Batcher(held, most=4, waiting=100, metrics=Metrics())
        first = asyncio.create_task(batcher.ask(0))
        await _begun(held.began)
        others = [asyncio.create_task(batcher.ask(number)) for number in (1, 2, 13, 4, 5)]
        await asyncio.sleep(0)
        held.may.set()
        answers = await asyncio.gather(first, *others, return_exceptions=True)
        batcher.close()
        return answers

    answers = asyncio.run(run())
    assert held.passes == [[0], [1, 2, 13, 4], [5]]
    assert [answer for answer in answers if isinstance(answer, int)] == [0, 2, 4, 8, 10]
    assert isinstance(answers[3], TableError)


def test_a_question_nobody_waits_for_is_never_computed_and_a_full_queue_refuses() -> None:
    held = Held()

    async def run() -> None:
        batcher: Batcher[int, int] = Batcher(held, most=4, waiting=2, metrics=Metrics())
        first = asyncio.create_task(batcher.ask(0))
        await _begun(held.began)
        left, stayed = asyncio.create_task(batcher.ask(1)), asyncio.create_task(batcher.ask(2))
        await asyncio.sleep(0)
        with pytest.raises(RefusalError, match="wait already"):
            await batcher.ask(3)
        left.cancel()
        await asyncio.sleep(0)
        held.may.set()
        assert await first == 0
        assert await stayed == 4
        batcher.close()

    asyncio.run(run())
    assert held.passes == [[0], [2]]


def test_work_stops_at_its_next_question_when_its_client_leaves() -> None:
    work = EndlessWork()

    async def run() -> None:
        long_work = LongWork(1, 1, 60.0, Metrics())
        task = asyncio.create_task(long_work.do(work))
        await _begun(work.began)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _begun(work.ended)
        assert await long_work.do(lambda _: 7) == 7
        long_work.close()

    asyncio.run(run())


def test_work_that_takes_too_long_is_given_up_and_a_full_house_refuses() -> None:
    may = threading.Event()

    def work(go_on: Callable[[], None]) -> None:
        while not may.is_set():
            go_on()

    async def run() -> None:
        long_work = LongWork(1, 0, 0.05, Metrics())
        first = asyncio.create_task(long_work.do(work))
        await asyncio.sleep(0)
        with pytest.raises(RefusalError) as full:
            await long_work.do(work)
        assert full.value.status == 503
        with pytest.raises(RefusalError) as late:
            await first
        assert late.value.status == 504
        may.set()
        long_work.close()

    asyncio.run(run())


def test_a_slow_answer_is_computed_once_for_all_who_ask() -> None:
    computed: list[int] = []

    async def run() -> list[int]:
        kept: CachedAnswer[int] = CachedAnswer(lambda: computed.append(1) or len(computed), 60.0)
        first = await asyncio.gather(*(kept.get() for _ in range(5)))
        again = CachedAnswer(lambda: computed.append(1) or len(computed), 0.0)
        return [*first, await kept.get(), await again.get(), await again.get()]

    assert asyncio.run(run()) == [1, 1, 1, 1, 1, 1, 2, 3]
