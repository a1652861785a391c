"""Trees on lags and planned commands; without lightgbm the error names the extra."""

import sys
from dataclasses import replace

import pytest
import torch

from crossfeed.errors import ConfigError, ForecastError
from crossfeed.evaluation.baselines.budget import Budget
from crossfeed.evaluation.baselines.regression import TreesForecaster, lightgbm
from crossfeed.training.health import persistence
from crossfeed.windows.windows import WindowSet

BUDGET = Budget(epochs=2, pretext_epochs=1, tree_rounds=60, tree_windows=400)


@pytest.fixture(autouse=True)
def _library(request: pytest.FixtureRequest) -> None:
    """Everything but the errors about a missing library needs the library."""
    if "without" in request.node.name:
        return
    try:
        lightgbm()
    except ConfigError as error:
        pytest.skip(error.found)


def fitted(parts: dict[str, WindowSet], uses_future_commands: bool = True) -> TreesForecaster:
    forecaster = TreesForecaster(BUDGET, uses_future_commands)
    forecaster.fit(parts["train"], parts["validation"], seed=0)
    return forecaster


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ConfigError, match="lightgbm") as error:
        lightgbm()
    assert "crossfeed[trees]" in str(error.value)


def test_without_the_system_library_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise OSError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr("crossfeed.errors.import_module", fail)
    with pytest.raises(ConfigError, match=r"libgomp\.so\.1") as error:
        lightgbm()
    assert "libgomp1" in error.value.remedy


def test_trees_beat_persistence_and_listen_to_commands(parts: dict[str, WindowSet]) -> None:
    forecaster = fitted(parts)
    batch = parts["test"].batch(torch.arange(len(parts["test"])))
    rolled = replace(batch, future_a_BTA=batch.future_a_BTA.roll(40, 0), mean_a_BHA=batch.mean_a_BHA.roll(40, 0))
    true, shuffled, floor = (
        float((mean - batch.future_x_BHC).square().mean().sqrt())
        for mean in (
            forecaster.predict(batch).mean,
            forecaster.predict(rolled).mean,
            persistence(batch.x_BKC, batch.m_BKC, parts["test"].horizons),
        )
    )
    assert true < 0.8 * floor
    assert shuffled > 1.2 * true
    assert forecaster.parameters > 0


def test_blind_trees_do_not_change_by_a_bit_under_another_plan(parts: dict[str, WindowSet]) -> None:
    forecaster = fitted(parts, uses_future_commands=False)
    batch = parts["test"].batch(torch.arange(20))
    other = replace(batch, future_a_BTA=batch.future_a_BTA + 1.0, mean_a_BHA=batch.mean_a_BHA - 1.0)
    assert torch.equal(forecaster.predict(batch).mean, forecaster.predict(other).mean)


def test_absent_channels_go_in_as_missing(parts: dict[str, WindowSet], gappy: WindowSet) -> None:
    forecaster = fitted(parts)
    batch = gappy.batch(torch.arange(30))
    rubbish = replace(batch, x_BKC=torch.where(batch.m_BKC, batch.x_BKC, 7.0))
    assert torch.equal(forecaster.predict(batch).mean, forecaster.predict(rubbish).mean)
    assert forecaster.predict(batch).mean.isfinite().all()


def test_unfitted_trees_say_so(parts: dict[str, WindowSet]) -> None:
    with pytest.raises(ForecastError, match="before it was fitted"):
        TreesForecaster(BUDGET).predict(parts["test"].batch(torch.arange(2)))


def test_a_tree_is_shown_every_lag_that_the_context_holds(parts: dict[str, WindowSet]) -> None:
    """A context of 16 rows holds lags up to 15, however few sensors there are."""
    forecaster, batch = TreesForecaster(BUDGET), parts["train"].batch(torch.arange(2))
    forecaster._horizons = parts["train"].horizons
    x_BKC, a_BKA = batch.x_BKC, batch.a_BKA
    state_BP = torch.cat(
        [
            *(x_BKC[:, 15 - lag] for lag in (0, 1, 2, 4, 8)),
            x_BKC.mean(1),
            x_BKC.std(1, correction=0),
            *(a_BKA[:, 15 - lag] for lag in (0, 1, 4)),
        ],
        dim=1,
    )
    wanted = [
        torch.cat(
            [state_BP, batch.mean_a_BHA[:, slot], batch.future_a_BTA[:, horizon - 1], batch.future_a_BTA[:, 0]], 1
        )
        for slot, horizon in enumerate(forecaster._horizons)
    ]
    found = torch.from_numpy(forecaster._predictors(batch)).unflatten(0, (2, len(wanted)))
    torch.testing.assert_close(found[..., :-1], torch.stack(wanted, 1))
    assert found[..., -1].tolist() == [list(forecaster._horizons)] * 2
