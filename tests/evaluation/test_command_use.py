"""Command use on a machine whose law is known: every false plan hurts who listens and leaves the deaf untouched."""

import pytest
import torch

from crossfeed.evaluation.command_use import CONDITIONS, KeptForecasts, command_use, false_plan
from crossfeed.evaluation.forecaster import naive_baselines
from crossfeed.evaluation.metrics import EvaluationSet, score_windows
from crossfeed.files import plain
from crossfeed.model.distribution import Distribution
from crossfeed.windows.windows import WindowBatch, mean_commands
from tests.evaluation.small_machine import HORIZONS, Physicist, evaluation_set


@pytest.fixture(scope="module")
def data() -> EvaluationSet:
    return evaluation_set()


def test_every_false_plan_hurts_the_forecaster_that_knows_the_law(data: EvaluationSet) -> None:
    found = command_use(Physicist(data.normaliser), data)
    for condition in CONDITIONS:
        ratio = found.plans[condition].rmse_ratio
        assert ratio.low > 1.0, condition
        assert ratio.low <= ratio.estimate <= ratio.high
        assert found.plans[condition].runs_worse == found.plans[condition].runs == 8


def test_a_forecaster_without_commands_does_not_change_by_a_bit(data: EvaluationSet) -> None:
    deaf, _ = naive_baselines(HORIZONS)
    deaf.fit(data.windows, data.windows, 0)
    found = command_use(deaf, data)
    assert {found.plans[condition].rmse_ratio.estimate for condition in CONDITIONS} == {1.0}
    assert {found.plans[condition].runs_worse for condition in CONDITIONS} == {0}


def test_a_model_that_is_off_by_one_is_found_out(data: EvaluationSet) -> None:
    class OffByOne(Physicist):
        """Reads every planned command one step too late, so the probe that is early corrects it."""

        def predict(self, batch):  # type: ignore[no-untyped-def]
            late = false_plan("late", data, torch.arange(len(data.windows)), 0)
            return super().predict(late(batch, torch.arange(len(batch.x_BKC))))

    assert command_use(OffByOne(data.normaliser), data).plans["early"].rmse_ratio.estimate < 1.0


def test_plans_are_what_they_say(data: EvaluationSet) -> None:
    index = torch.arange(len(data.windows))
    batch = data.windows.batch(index)
    plans = {name: false_plan(name, data, index, 3)(batch, index) for name in CONDITIONS}
    zero = data.normaliser.inverse_commands(plans["zero"].future_a_BTA.double())
    torch.testing.assert_close(zero, torch.zeros_like(zero), atol=1e-3, rtol=0)
    assert not plans["average"].future_a_BTA.any()
    own, other = batch.future_a_BTA, plans["shuffled"].future_a_BTA
    torch.testing.assert_close(other.sum(), own.sum())
    assert (own != other).flatten(1).any(1).float().mean() > 0.8
    torch.testing.assert_close(plans["time-shuffled"].future_a_BTA.sort(1).values, own.sort(1).values)
    assert torch.equal(plans["late"].future_a_BTA[:, 1:], own[:, :-1])
    assert torch.equal(plans["late"].future_a_BTA[:, 0], batch.a_BKA[:, -1])
    assert torch.equal(plans["early"].future_a_BTA[:, :-1], own[:, 1:])
    for plan in plans.values():
        torch.testing.assert_close(plan.mean_a_BHA, mean_commands(plan.future_a_BTA, HORIZONS))
        assert torch.equal(plan.future_x_BHC, batch.future_x_BHC)


def test_the_same_seed_gives_the_same_plans_in_any_batch(data: EvaluationSet) -> None:
    index = torch.arange(len(data.windows))
    for name in ("shuffled", "time-shuffled"):
        change = false_plan(name, data, index, 5)
        whole = change(data.windows.batch(index), index).future_a_BTA
        part = index[10:20]
        assert torch.equal(change(data.windows.batch(part), part).future_a_BTA, whole[10:20])


def test_forecasts_that_were_kept_are_not_made_again(data: EvaluationSet) -> None:
    asked = list[int]()

    class Counting(Physicist):
        def predict(self, batch: WindowBatch) -> Distribution:
            asked.append(len(batch.x_BKC))
            return super().predict(batch)

    forecaster = Counting(data.normaliser)
    kept = KeptForecasts(data.sample(40))
    score_windows(forecaster, data, on_forecast=[kept])
    asked.clear()
    found = command_use(forecaster, data, kept=kept)
    assert sum(asked) == len(CONDITIONS) * 40
    assert plain(found) == plain(command_use(forecaster, data, data.sample(40)))


def test_errors_alone_are_those_of_the_whole_sheet(data: EvaluationSet) -> None:
    part = torch.arange(20)
    batch, forecaster = data.windows.batch(part), Physicist(data.normaliser)
    whole, errors = data.scores("whole"), data.scores("errors")
    data.count_in(whole, forecaster.predict(batch), batch, part)
    data.count_in(errors, forecaster.predict(batch), batch, part, errors_only=True)
    for name, value in errors.metrics().items():
        left_out = name == "nll" or name.startswith(("coverage", "width"))
        assert value == (None if left_out else whole.metrics()[name]), name
