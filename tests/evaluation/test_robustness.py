"""The robustness tables: complete, ordered where physics says so, and honest when a forecaster breaks."""

import math

import pytest
import torch

from crossfeed.evaluation.metrics import EvaluationSet
from crossfeed.evaluation.robustness import CORRUPTIONS, SEVERITIES, Probe, channel_curve, robustness, slower_logging
from crossfeed.model.distribution import Gaussian
from crossfeed.windows.windows import WindowBatch
from tests.evaluation.small_machine import Physicist, evaluation_set


@pytest.fixture(scope="module")
def data() -> EvaluationSet:
    return evaluation_set()


def test_every_corruption_is_measured_and_heavier_noise_hurts_more(data: EvaluationSet) -> None:
    table = robustness(Probe.of(Physicist(data.normaliser), data, 200))
    assert table["windows"] == 200
    for kind in CORRUPTIONS:
        assert set(SEVERITIES) <= set(table[kind])
    for kind in ("noise", "bias", "drift", "spikes", "clock jitter"):
        errors = [table[kind][severity]["rmse"] for severity in SEVERITIES]
        assert table["clean"]["rmse"] < errors[0] < errors[1] < errors[2], kind
        assert table[kind]["heavy"]["rmse_ratio"].low > 1.0
    assert table["clean"]["rmse_ratio"].estimate == 1.0


def test_the_suite_is_the_same_for_everyone(data: EvaluationSet) -> None:
    first, second = (robustness(Probe.of(Physicist(data.normaliser), data, 60)) for _ in range(2))
    assert first == second


def test_a_forecaster_that_breaks_under_a_corruption_is_named_there(data: EvaluationSet) -> None:
    class Fragile(Physicist):
        name = "fragile"

        def predict(self, batch: WindowBatch) -> Gaussian:
            said = super().predict(batch)
            broken = (batch.x_BKC.abs() > 50.0).flatten(1).any(1)[:, None, None]
            return Gaussian(torch.where(broken, math.nan, said.mean), said.scale)

    table = robustness(Probe.of(Fragile(data.normaliser), data, 60))
    assert "'fragile' returned" in table["unit slip"]["heavy"]["failed"]
    assert "rmse" in table["bias"]["heavy"]


def test_slower_logging_costs_a_forecaster_that_needs_the_last_row(data: EvaluationSet) -> None:
    table = slower_logging(Probe.of(Physicist(data.normaliser), data, 200))
    assert table["1"]["rmse"] < table["2"]["rmse"] < table["4"]["rmse"] < table["8"]["rmse"]


def test_the_channel_curve_compares_on_the_same_channels(data: EvaluationSet) -> None:
    table = channel_curve(Probe.of(Physicist(data.normaliser), data, 100))
    # The physicist reads each channel by itself: hiding others costs nothing.
    for size in ("1", "2"):
        assert len(table[size]) == 2
        assert all(row["ratio"] == pytest.approx(1.0) for row in table[size])
        assert all(len(row["kept"]) == int(size) for row in table[size])
    assert "4" not in table
