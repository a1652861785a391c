"""Each channel in its own unit, and headline numbers that are those of the scores, between their ends."""

import pytest

from crossfeed.evaluation.channels import JUDGED, PHYSICAL, channel_scores, headline_intervals
from crossfeed.evaluation.metrics import EvaluationSet, Scores, score_windows
from tests.evaluation.small_machine import SCHEMA, Physicist, evaluation_set


@pytest.fixture(scope="module")
def data() -> EvaluationSet:
    return evaluation_set()


@pytest.fixture(scope="module")
def scores(data: EvaluationSet) -> Scores:
    return score_windows(Physicist(data.normaliser, spread=0.02), data)


@pytest.mark.parametrize("choice", [{}, {"channel": ["power"]}, {"horizon": [4], "channel": ["current", "power"]}])
def test_the_middle_of_each_headline_interval_is_the_metric_itself(scores: Scores, choice: dict) -> None:
    metrics, found = scores.metrics(**choice), headline_intervals(scores, **choice)
    assert set(found) == {"rmse", "mae", "crps", "skill_rmse", "coverage90"}
    for name, interval in found.items():
        assert interval.estimate == pytest.approx(metrics[name]), name
        assert interval.low < interval.estimate < interval.high, name


def test_each_channel_is_told_in_its_own_unit(scores: Scores, data: EvaluationSet) -> None:
    table = channel_scores(scores, data)
    assert list(table) == list(SCHEMA.sensor_names)
    for number, (name, found) in enumerate(table.items()):
        scale = data.normaliser.sensor_scale[number]
        assert found.unit == SCHEMA.channel(name).unit
        assert set(found.physical) == set(PHYSICAL)
        assert found.physical["rmse"] == pytest.approx(scale * found.metrics["rmse"])
        assert found.metrics["rmse"] == pytest.approx(scores.metrics(channel=[name])["rmse"])
        assert set(found.intervals) == set(JUDGED)
        assert found.intervals["skill_rmse"].estimate == pytest.approx(found.metrics["skill_rmse"])
        assert not found.constant
