"""The text that Prometheus reads: labels of any kind, histograms that add up."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("prometheus_client", reason="needs the extra 'serve'")
pytest.importorskip("starlette", reason="needs the extra 'serve'")

from crossfeed.studio.gate import Bounds, Message, Receive, Scope, Send
from crossfeed.studio.queues import Metrics
from crossfeed.studio.settings import Limits


@given(st.lists(st.tuples(st.text(max_size=8), st.floats(0.0, 1e4)), max_size=20))
def test_prometheus_reads_what_was_counted(answers: list[tuple[str, float]]) -> None:
    from prometheus_client import parser

    metrics = Metrics()
    for route, seconds in answers:
        metrics.answered(route, 200, seconds)
    odd = 'a"b\\c\nd'
    metrics.watch("crossfeed_odd", "A label with quotes.", lambda: [({"name": odd}, 1.0)])
    metrics.watch("crossfeed_none", "Nothing to show yet.", list)
    families = {family.name: family for family in parser.text_string_to_metric_families(metrics.text())}
    assert [sample.labels for sample in families["crossfeed_odd"].samples] == [{"name": odd}]
    assert families["crossfeed_none"].samples == []
    assert families["process_cpu_seconds"].samples[0].value > 0.0
    for name, ending in (("crossfeed_requests", "_total"), ("crossfeed_request_seconds", "_count")):
        counts = [sample.value for sample in families[name].samples if sample.name == name + ending]
        assert sum(counts) == len(answers)


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
