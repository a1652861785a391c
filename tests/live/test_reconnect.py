"""Connections that are lost and taken up again: what is told about it, and how often."""

import itertools
from collections.abc import AsyncIterator

import pytest

from crossfeed.errors import LogError
from crossfeed.live import source
from crossfeed.live.source import Arrival, Notice, Sample, backoff, reconnecting
from tests.live.conftest import LIMIT_S, within


def test_a_returned_server_is_never_kept_waiting_for_more_than_two_seconds() -> None:
    assert list(itertools.islice(backoff(), 6)) == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]


def test_a_loss_and_a_return_are_told_once_however_many_attempts_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "backoff", lambda: itertools.repeat(0.0))
    outcomes = iter(["row", "gone", "gone", "ended", "row"])

    async def connect() -> AsyncIterator[Arrival]:
        outcome = next(outcomes)
        if outcome == "row":
            yield Sample("power", 1.0, 5)
        if outcome != "ended":
            raise LogError("It is gone.", expected="an answer")

    async def work() -> list[Arrival]:
        arrivals = reconnecting(connect, (LogError,), "it is back")
        return [await anext(arrivals) for _ in range(5)]

    told = [one.text if isinstance(one, Notice) else "a row" for one in within(LIMIT_S, work)]
    lost = "the connection was lost: It is gone."
    assert told == ["a row", lost, "it is back", "a row", lost]


def test_an_error_of_another_kind_is_not_taken_for_a_lost_connection() -> None:
    async def connect() -> AsyncIterator[Arrival]:
        raise KeyError("a mistake of ours")
        yield Sample("power", 1.0, 5)

    async def work() -> None:
        with pytest.raises(KeyError, match="a mistake of ours"):
            await anext(reconnecting(connect, (LogError,), "it is back"))

    within(LIMIT_S, work)
