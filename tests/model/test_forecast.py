"""Forecasts in physical units: names decide, any subset of sensors will do, bad input is refused in words."""

from typing import Any

import numpy as np
import pandas
import polars
import pytest
import torch
from scipy import stats

from crossfeed.errors import ConfigError, TableError
from crossfeed.model.interface import Plan
from crossfeed.model.presets import paper
from crossfeed.model.world_model import WorldModel
from crossfeed.rows import check_levels, check_plausible
from tests.model import toy

NAMES = toy.SCHEMA.sensor_names + toy.SCHEMA.command_names


@pytest.fixture(scope="module", params=["mended", "crossfeed"])
def model(request: pytest.FixtureRequest) -> WorldModel:
    return toy.model() if request.param == "mended" else toy.sensor_model()


def _history(rows: int = 8, windows: int | None = None) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shape = (rows,) if windows is None else (windows, rows)
    return {name: random.normal(3.0, 2.0, size=shape) for name in NAMES}


def _plan(rows: int = 4, windows: int | None = None) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    shape = (rows,) if windows is None else (windows, rows)
    return {name: random.normal(100.0, 50.0, size=shape) for name in toy.SCHEMA.command_names}


def test_a_forecast_is_the_models_prediction_in_physical_units(model: WorldModel) -> None:
    history, plan, scaler = _history(), _plan(), toy.normaliser()
    forecast = model.forecast(history, plan)
    values = np.stack([history[name] for name in NAMES], 1)
    x = torch.from_numpy(scaler.transform_sensors(values[:, :5])).float()[None]
    a = torch.from_numpy(scaler.transform_commands(values[:, 5:])).float()[None]
    future = np.stack([plan[name] for name in toy.SCHEMA.command_names], 1)
    future_a = torch.from_numpy(scaler.transform_commands(future)).float()[None]
    with torch.no_grad():
        context = model.encode(x, torch.ones_like(x, dtype=torch.bool), a)
        said = model.decode(context, Plan.under(future_a, toy.HORIZONS)).distribution
    np.testing.assert_allclose(forecast.mean, scaler.inverse_sensors(said.mean[0].double().numpy()), rtol=1e-5)
    deviation = said.standard_deviation[0].double().numpy() * scaler.sensor_scale
    np.testing.assert_allclose(forecast.standard_deviation, deviation, rtol=1e-5)
    assert forecast.mean.shape == (3, 5)
    assert forecast.measured == toy.SCHEMA.sensor_names


@pytest.mark.parametrize("make", [polars.DataFrame, pandas.DataFrame, dict])
def test_frames_and_dicts_agree_and_the_order_of_columns_does_not_matter(model: WorldModel, make: Any) -> None:
    history, plan = _history(), _plan()
    wanted = model.forecast(history, plan)
    turned = {name: history[name] for name in reversed(history)} | {"time": np.arange(8), "note": ["x"] * 8}
    found = model.forecast(make(turned), make({name: plan[name] for name in reversed(plan)}))
    assert np.array_equal(found.mean, wanted.mean)
    assert np.array_equal(found.standard_deviation, wanted.standard_deviation)


def test_an_absent_column_a_null_column_and_a_nan_column_are_the_same(model: WorldModel) -> None:
    history, plan = _history(), _plan()
    without = {name: values for name, values in history.items() if name != "current_2"}
    frame = polars.DataFrame(without)
    null = frame.with_columns(polars.lit(None, dtype=polars.Float64).alias("current_2"))
    nan = {**without, "current_2": np.full(8, np.nan)}
    forecasts = [model.forecast(source, plan) for source in (without, frame, null, nan)]
    for forecast in forecasts:
        assert np.array_equal(forecast.mean, forecasts[0].mean)
        assert forecast.measured == ("current_0", "current_1", "current_3", "current_4")
    assert not np.allclose(forecasts[0].mean, model.forecast(history, plan).mean)


@pytest.mark.parametrize("base", [None, paper()])
def test_reading_present_channels_only_changes_nothing_but_the_cost(base: Any) -> None:
    model = toy.model(toy.method(base=base))
    history, plan = _history(), _plan()
    history["current_0"] = np.full(8, np.nan)
    history["current_1"][3:5] = history["current_2"][3:5] = np.nan
    history["current_3"][3:5] = history["current_4"][3:5] = np.nan
    two = [{**history, "current_0": column} for column in (history["current_0"], np.arange(8.0))]
    together, alone = model.forecast(two, plan), model.forecast(history, plan)
    np.testing.assert_allclose(together.mean[0], alone.mean, rtol=1e-4, atol=1e-5)


def test_many_windows_come_as_arrays_dicts_or_lists(model: WorldModel) -> None:
    history, plan = _history(windows=5), _plan(windows=5)
    by_dict = model.forecast(history, plan, batch_size=2)
    stacked = np.stack([history[name] for name in NAMES], -1)
    plans = np.stack([plan[name] for name in toy.SCHEMA.command_names], -1)
    by_array = model.forecast(stacked, plans)
    frames = [polars.DataFrame({name: history[name][w] for name in NAMES}) for w in range(5)]
    by_list = model.forecast(frames, list(plans))
    assert by_dict.mean.shape == (5, 3, 5)
    np.testing.assert_allclose(by_array.mean, by_dict.mean, rtol=1e-5)
    np.testing.assert_allclose(by_list.mean, by_dict.mean, rtol=1e-5)
    np.testing.assert_allclose(model.forecast(frames[3], plans[3]).mean, by_dict.mean[3], rtol=1e-5)
    one_plan = model.forecast(history, {name: values[3] for name, values in plan.items()})
    np.testing.assert_allclose(one_plan.mean[3], by_dict.mean[3], rtol=1e-5)


def test_only_the_last_rows_and_the_needed_commands_are_read(model: WorldModel) -> None:
    history, plan = _history(rows=12), _plan(rows=9)
    tail = {name: values[-8:] for name, values in history.items()}
    short = {name: values[:4] for name, values in plan.items()}
    assert np.array_equal(model.forecast(history, plan).mean, model.forecast(tail, short).mean)
    assert model.forecast(history, {name: values[:3] for name, values in plan.items()}, [3]).mean.shape == (1, 5)


def test_quantiles_and_frames_follow_the_family() -> None:
    forecast = toy.model().forecast(_history(), _plan(), horizons=[1, 3])
    np.testing.assert_array_equal(forecast.median, forecast.mean)
    wanted = forecast.mean + forecast.standard_deviation * stats.norm.ppf(0.95)
    np.testing.assert_allclose(forecast.quantiles([0.95])[0], wanted, rtol=1e-6)
    frame = forecast.to_polars(levels=[0.05, 0.95])
    assert frame.shape == (10, 10)
    row = frame.filter((polars.col("horizon") == 3) & (polars.col("sensor") == "current_4"))
    assert row["mean"].item() == forecast.mean[1, 4]
    assert row["median"].item() == forecast.median[1, 4]
    assert row["q0.95"].item() == forecast.quantiles([0.95])[0, 1, 4]
    assert row["measured"].item() is True


def test_forecasting_leaves_a_model_in_training_as_it_was() -> None:
    model = toy.model().train()
    first, second = (model.forecast(_history(), _plan()).mean for _ in range(2))
    assert np.array_equal(first, second)
    assert model.training


@pytest.mark.parametrize(
    ("history", "plan", "horizons", "kind", "sentence"),
    [
        (_history(rows=7), _plan(), None, TableError, "history has 7 rows"),
        (_history(), _plan(rows=3), None, TableError, "planned for 3 steps, but horizon 4"),
        (_history(), _plan(), [5], TableError, "planned for 4 steps, but horizon 5"),
        (_history(), _plan(rows=9), [5], ConfigError, "5 lies outside"),
        (_history(), _plan(), [0], ConfigError, "whole numbers"),
        (_history(), _plan(), [], ConfigError, "whole numbers"),
        ({"feed_0": np.zeros(8), "feed_1": np.zeros(8)}, _plan(), None, TableError, "no measured value"),
        ({"speed": np.zeros(8)}, _plan(), None, TableError, "none of the columns"),
        ({**_history(), "feed_1": np.full(8, np.nan)}, _plan(), None, TableError, "lacks values of feed_1"),
        (_history(), {"feed_0": np.zeros(4)}, None, TableError, "lacks values of feed_1"),
        ({**_history(), "current_1": np.full(8, np.inf)}, _plan(), None, TableError, "infinite"),
        ({**_history(), "current_1": np.full(8, 1e39)}, _plan(), None, TableError, "current_1 is more than"),
        (_history(), {**_plan(), "feed_0": np.full(4, 1e39)}, None, TableError, "feed_0 is more than"),
        ({**_history(), "current_1": ["a"] * 8}, _plan(), None, TableError, "no number"),
        ({**_history(), "current_1": np.zeros(9)}, _plan(), None, TableError, "shapes"),
        (np.zeros((8, 6)), _plan(), None, TableError, "shape"),
        ([], _plan(), None, TableError, "no window"),
        ([_history(8), _history(9)], _plan(), None, TableError, "same number"),
        (_history(windows=3), _plan(windows=2), None, TableError, "3 histories and 2"),
    ],
)
def test_bad_input_is_refused_in_words(
    model: WorldModel, history: Any, plan: Any, horizons: Any, kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        model.forecast(history, plan, horizons)


def test_impossible_quantiles_are_refused(model: WorldModel) -> None:
    forecast = model.forecast(_history(), _plan())
    for levels in ([0.0], [0.5, 1.0], []):
        with pytest.raises(ConfigError):
            forecast.quantiles(levels)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.1])
def test_quantiles_are_given_as_near_to_the_ends_as_asked_but_not_at_them(level: float) -> None:
    check_levels([0.001, 0.999])
    with pytest.raises(ConfigError, match="levels between 0 and 1"):
        check_levels([0.5, level])


def test_a_million_standard_deviations_are_the_farthest_that_is_read() -> None:
    z = np.array([[0.0, 1e6], [0.0, -1e6]])
    check_plausible(z, ("a", "b"), "history")
    with pytest.raises(TableError, match=r"In the history b is more than 1e\+06 standard deviations"):
        check_plausible(1.001 * z, ("a", "b"), "history")
