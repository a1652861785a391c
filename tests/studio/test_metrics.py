"""The text that Prometheus reads: every sample well formed, histograms that add up."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.studio.bounds import Bounds
from crossfeed.studio.gate import Message, Receive, Scope, Send
from crossfeed.studio.metrics import Metrics
from crossfeed.studio.settings import Limits

SAMPLE = re.compile(r'[a-z_]+(\{([a-z]+="([^"\\\n]|\\.)*",?)+\})? (\+Inf|[-+.\de]+)')


@given(st.lists(st.tuples(st.text(max_size=8), st.floats(0.0, 1e4)), max_size=20))
def test_every_line_is_a_comment_or_a_sample_and_buckets_add_up(answers: list[tuple[str, float]]) -> None:
    metrics = Metrics()
    for route, seconds in answers:
        metrics.answered(route, 200, seconds)
    metrics.watch("crossfeed_odd", "A label with quotes.", lambda: [({"name": 'a"b\\c\nd'}, 1.0)])
    lines = metrics.text().split("\n")
    assert lines[-1] == ""
    assert all(line.startswith("# ") or SAMPLE.fullmatch(line) for line in lines[:-1]), lines
    whole = [line for line in lines if line.startswith("crossfeed_request_seconds_bucket") and 'le="+Inf"' in line]
    assert sum(int(line.rpartition(" ")[2]) for line in whole) == len(answers)


def test_an_answer_that_crashed_was_not_counted() -> None:
    async def crashes(_: Scope, __: Receive, ___: Send) -> None:
        raise ValueError("a mistake of ours")

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    metrics = Metrics()
    with pytest.raises(ValueError, match="a mistake of ours"):
        asyncio.run(Bounds(crashes, Limits(), metrics)({"type": "http", "headers": []}, receive, send))
    assert 'crossfeed_requests_total{route="other",status="500"} 1' in metrics.text()
