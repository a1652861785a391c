"""The queue between a source and its reader."""

import asyncio

import pytest

from crossfeed.live.source import BoundedQueue, Notice, Sample
from tests.live.conftest import LIMIT_S, within


@pytest.mark.parametrize("steps", range(4))
def test_a_reader_that_was_stopped_while_something_arrived_went_on_reading(steps: int) -> None:
    async def work() -> bool:
        queue = BoundedQueue()
        reading = asyncio.create_task(queue.take(LIMIT_S))
        await asyncio.sleep(0)
        queue.put(Sample("power", 1.0, 0))
        for _ in range(steps):
            await asyncio.sleep(0)
        if not reading.cancel():
            return len(await reading) == 1  # it was done before
        await asyncio.wait({reading})
        return reading.cancelled()

    assert within(LIMIT_S, work)


def test_the_oldest_samples_go_and_notices_stay() -> None:
    async def work() -> tuple[list[object], int]:
        queue = BoundedQueue(longest=2)
        queue.put(Notice("gap", "lost"))
        for number in range(3):
            queue.put(Sample("power", float(number), number))
        return list(await queue.take(LIMIT_S)), queue.dropped

    found, dropped = within(LIMIT_S, work)
    assert dropped == 2
    assert found == [Notice("gap", "lost"), Sample("power", 2.0, 2)]
