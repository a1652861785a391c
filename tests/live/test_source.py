"""Connections that are lost and taken up again: what is told about it, and how often."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from crossfeed.errors import LogError
from crossfeed.live import source
from crossfeed.live.source import Arrival, BoundedQueue, ConnectedSource, Notice, Sample, SourceClock, backoff
from tests.live.conftest import LIMIT_S, within


class Losable(ConnectedSource):
    """A source that is told by each test what its connections bring."""

    back = "it is back"

    def losses(self) -> tuple[type[Exception], ...]:
        return (LogError,)


def test_a_returned_server_is_never_kept_waiting_for_more_than_two_seconds() -> None:
    assert list(itertools.islice(backoff(), 6)) == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]


def test_a_loss_and_a_return_are_told_once_however_many_attempts_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "backoff", lambda: itertools.repeat(0.0))
    outcomes = iter(["row", "gone", "gone", "ended", "row"])

    class Unsteady(Losable):
        async def connection(self) -> AsyncIterator[Arrival]:
            outcome = next(outcomes)
            if outcome == "row":
                yield Sample("power", 1.0, 5)
            if outcome != "ended":
                raise LogError("It is gone.", expected="an answer")

    async def work() -> list[Arrival]:
        arrivals = Unsteady().arrivals()
        return [await anext(arrivals) for _ in range(5)]

    told = [one.text if isinstance(one, Notice) else "a row" for one in within(LIMIT_S, work)]
    lost = "the connection was lost: It is gone."
    assert told == ["a row", lost, "it is back", "a row", lost]


def test_an_error_of_another_kind_is_not_taken_for_a_lost_connection() -> None:
    class Mistaken(Losable):
        async def connection(self) -> AsyncIterator[Arrival]:
            raise KeyError("a mistake of ours")
            yield Sample("power", 1.0, 5)

    async def work() -> None:
        with pytest.raises(KeyError, match="a mistake of ours"):
            await anext(Mistaken().arrivals())

    within(LIMIT_S, work)


def test_a_clock_that_is_three_seconds_behind_is_reported_whatever_the_delays() -> None:
    clock = SourceClock()
    for number in range(50):
        clock.observe(round((1000.0 + number - 3.0) * 1e6), arrived=1000.0 + number + 0.1 * (number % 5))
    assert clock.skew == pytest.approx(3.0)
    assert "3.0 s behind ours" in clock.skew_warning


def test_a_clock_that_is_ahead_is_reported_and_a_small_difference_is_not() -> None:
    ahead, fine = SourceClock(), SourceClock()
    ahead.observe(1_002_000_000, arrived=1000.0)
    fine.observe(1_000_400_000, arrived=1000.0)
    assert "2.0 s ahead of ours" in ahead.skew_warning
    assert fine.skew_warning == ""


def test_the_clock_of_an_old_log_was_54051714_seconds_behind() -> None:
    old = SourceClock()
    old.observe(0, arrived=625.6 * 86_400)
    assert old.skew_warning == "the source's clock is 626 days behind ours"


def test_a_replay_at_ten_times_the_speed_is_no_skew() -> None:
    clock = SourceClock(speed=10.0)
    for number in range(50):
        clock.observe(round((5.0 + number) * 1e6), arrived=1000.0 + number / 10.0)
    assert clock.skew == pytest.approx(0.0, abs=1e-9)
    assert clock.skew_warning == ""


@pytest.mark.parametrize(
    ("off", "said"),
    [
        (0.5, ""),
        (0.51, "0.5 s behind"),
        (-0.5, ""),
        (-0.51, "0.5 s ahead"),
        (1.99 * 86_400, "171,936.0 s behind"),
        (2.0 * 86_400, "2 days behind"),
    ],
)
def test_clocks_are_reported_from_half_a_second_on_and_in_days_from_two(off: float, said: str) -> None:
    clock = SourceClock()
    clock.observe(0, arrived=off)
    assert said in clock.skew_warning
    assert bool(clock.skew_warning) == bool(said)


def test_the_quickest_of_the_last_two_hundred_arrivals_took_no_time() -> None:
    clock = SourceClock()
    assert clock.skew == 0.0
    clock.observe(1_000_000, arrived=1.25)
    for number in range(199):
        clock.observe(1_000_000 * number, arrived=number + 2.0)
    assert clock.skew == 0.25
    clock.observe(0, arrived=2.0)
    assert clock.skew == 2.0


def test_age_is_counted_in_our_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    for speed, ours in ((1.0, 8.0), (10.0, 0.8)):
        clock = SourceClock(speed)
        clock.observe(5_000_000, arrived=1000.0)
        monkeypatch.setattr("crossfeed.live.source.time.time", lambda ours=ours: 1000.0 + ours)
        assert clock.now() == pytest.approx(13.0)
        assert clock.age(5.0) == pytest.approx(ours)
        assert clock.age(14.0) == 0.0


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
