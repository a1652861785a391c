"""The text that Prometheus reads: every sample well formed, histograms that add up."""

import re

from hypothesis import given
from hypothesis import strategies as st

from crossfeed.studio.metrics import Metrics

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
