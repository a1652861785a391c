"""One evaluation for everybody: models beside naive baselines on the same windows, and who fails is named."""

import math

import pytest
import torch

from crossfeed.errors import ConfigError
from crossfeed.evaluation.forecaster import Forecaster, naive_baselines
from crossfeed.evaluation.judge import JudgedModel, judge
from crossfeed.evaluation.metrics import EvaluationSet
from crossfeed.model.distribution import Gaussian
from crossfeed.windows.windows import WindowBatch, WindowSet
from tests.evaluation.small_machine import CONTEXT, HORIZONS, SCHEMA, Physicist, evaluation_set, small_table


class Broken(Forecaster):
    name, uses_future_commands = "broken", False

    def predict(self, batch: WindowBatch) -> Gaussian:
        mean = torch.zeros_like(batch.future_x_BHC)
        mean[0, 0, 0] = math.nan
        return Gaussian(mean, torch.ones_like(mean))


def test_a_forecaster_that_returns_nan_is_named_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    data = evaluation_set()
    found = judge([JudgedModel(Broken(), data), JudgedModel(Physicist(data.normaliser), data)], [], 1.0)
    assert found.models == ("physicist",)
    assert set(found.scores) == {"physicist"}
    assert "'broken' returned" in found.excluded["broken"]
    assert "left out" in capsys.readouterr().err


def test_models_come_first_and_naive_baselines_are_not_probed() -> None:
    data = evaluation_set()
    found = judge([JudgedModel(Physicist(data.normaliser), data)], naive_baselines(HORIZONS), 2.0)
    assert list(found.scores) == ["physicist", "persistence", "linear drift"]
    assert found.models == ("physicist",)
    assert found.period == 2.0
    assert not found.naive_have_spread
    assert found.robustness is None, "the standard suite leaves the slow probes out"
    assert [one.second for one in found.comparisons[0]] == ["persistence", "linear drift"]
    assert sum(row["count"] for row in found.by_regime["physicist"].values()) == found.scores["physicist"]["count"]


def test_models_that_read_other_windows_are_not_compared() -> None:
    data, table = evaluation_set(), small_table()
    longer = WindowSet.build(table, None, data.normaliser, context=CONTEXT + 1, horizons=HORIZONS)
    other = EvaluationSet(longer, SCHEMA, data.normaliser, data.space)
    models = [JudgedModel(Physicist(one.normaliser), one) for one in (data, other)]
    with pytest.raises(ConfigError, match="reads other windows"):
        judge(models, [], 1.0)


def test_nobody_to_judge_is_refused() -> None:
    with pytest.raises(ConfigError, match="No model was given"):
        judge([], [], 1.0)
