"""Metrics against scikit-learn and scoringrules on masked data; coverage and PIT on data drawn from the model."""

import math

import numpy as np
import pytest
import scoringrules
import torch
from scipy import stats
from sklearn import metrics as theirs

from crossfeed.errors import ForecastError
from crossfeed.evaluation.metrics import LEVELS, Scores, physical
from crossfeed.model.distribution import Gaussian, Mixture, Quantiles

RUNS, REGIMES, HORIZONS, CHANNELS = ("a", "b", "c"), ("idle", "steady"), (1, 4), ("x", "y", "z")


def random_data(windows: int = 300, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (windows, len(HORIZONS), len(CHANNELS))

    def normal() -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return {
        "mean": normal(),
        "scale": normal().exp(),
        "x": normal() * 2.0,
        "floor": normal(),
        "present": torch.rand(shape, generator=generator) < 0.6,
        "run": torch.randint(3, (windows,), generator=generator),
        "regime": torch.randint(2, shape[:2], generator=generator),
    }


def scored(data: dict[str, torch.Tensor], parts: int = 3) -> Scores:
    scores = Scores("test", RUNS, REGIMES, HORIZONS, CHANNELS)
    for index in torch.arange(len(data["x"])).chunk(parts):
        d = {name: values[index] for name, values in data.items()}
        scores.add(Gaussian(d["mean"], d["scale"]), d["x"], d["present"], d["floor"], d["run"], d["regime"])
    return scores


def check(found: dict[str, float | None], data: dict[str, torch.Tensor], chosen: np.ndarray) -> None:
    x, mean, scale, floor = (data[name].numpy()[chosen] for name in ("x", "mean", "scale", "floor"))
    rmse, mae = theirs.root_mean_squared_error(x, mean), theirs.mean_absolute_error(x, mean)
    assert found["count"] == len(x)
    assert found["rmse"] == pytest.approx(rmse)
    assert found["mae"] == pytest.approx(mae)
    assert found["r2"] == pytest.approx(theirs.r2_score(x, mean))
    assert found["skill_rmse"] == pytest.approx(1 - rmse / theirs.root_mean_squared_error(x, floor))
    assert found["skill_mae"] == pytest.approx(1 - mae / theirs.mean_absolute_error(x, floor))
    assert found["nll"] == pytest.approx(-stats.norm(mean, scale).logpdf(x).mean())
    assert found["crps"] == pytest.approx(scoringrules.crps_normal(x, mean, scale).mean())
    for level in LEVELS:
        low, high = stats.norm(mean, scale).interval(level)
        assert found[f"coverage{100 * level:.0f}"] == pytest.approx(((x >= low) & (x <= high)).mean())
    low, high = stats.norm(mean, scale).interval(0.9)
    assert found["width90"] == pytest.approx((high - low).mean())


def test_pooled_metrics_agree_with_independent_implementations() -> None:
    data = random_data()
    check(scored(data).metrics(), data, data["present"].numpy())


def test_metrics_of_each_run_regime_horizon_and_channel_agree() -> None:
    data = random_data()
    scores, present = scored(data), data["present"].numpy()
    for number, run in enumerate(RUNS):
        check(scores.by("run")[run], data, present & (data["run"].numpy() == number)[:, None, None])
    for number, regime in enumerate(REGIMES):
        check(scores.by("regime")[regime], data, present & (data["regime"].numpy() == number)[..., None])
    for number, horizon in enumerate(HORIZONS):
        only = np.zeros_like(present)
        only[:, number] = present[:, number]
        check(scores.by("horizon")[str(horizon)], data, only)
    for number, channel in enumerate(CHANNELS):
        only = np.zeros_like(present)
        only[..., number] = present[..., number]
        check(scores.by("channel")[channel], data, only)
    both = present & (data["run"].numpy() == 1)[:, None, None]
    both[..., :2] = False
    check(scores.metrics(run=["b"], channel=["z"]), data, both)


def test_the_number_of_batches_does_not_matter() -> None:
    data = random_data()
    np.testing.assert_allclose(scored(data, 1).sums, scored(data, 17).sums, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("poison", [math.nan, math.inf, 1e30])
def test_what_lies_under_an_absent_entry_never_matters(poison: float) -> None:
    data = random_data()
    poisoned = dict(data)
    for name in ("x", "mean", "scale", "floor"):
        poisoned[name] = torch.where(data["present"], data[name], poison)
    np.testing.assert_array_equal(scored(data).sums, scored(poisoned).sums)
    np.testing.assert_array_equal(scored(data).pit, scored(poisoned).pit)


def test_coverage_and_pit_are_right_on_data_drawn_from_the_model() -> None:
    generator = torch.Generator().manual_seed(1)
    shape = (4000, len(HORIZONS), len(CHANNELS))
    mean, scale = (
        torch.randn(shape, generator=generator).double(),
        torch.rand(shape, generator=generator).double() + 0.1,
    )
    uniform = torch.rand(shape, generator=generator).double()
    x, forecast = mean + scale * torch.special.ndtri(uniform), Gaussian(mean, scale)
    scores = Scores("true", RUNS, REGIMES, HORIZONS, CHANNELS)
    zeros = torch.zeros(shape[:2], dtype=torch.long)
    scores.add(forecast, x, torch.ones(shape, dtype=torch.bool), x, zeros[:, 0], zeros)
    found, entries = scores.metrics(), math.prod(shape)
    for level in LEVELS:
        error = 4.0 * math.sqrt(level * (1 - level) / entries)
        assert found[f"coverage{100 * level:.0f}"] == pytest.approx(level, abs=error)
    assert stats.chisquare(scores.pit_histogram() * entries).pvalue > 1e-3


@pytest.mark.parametrize("broken", ["mean", "scale"])
def test_a_forecaster_that_returns_nan_is_named(broken: str) -> None:
    data = random_data()
    data["present"][5, 0, 2] = True
    data[broken][5, 0, 2] = math.nan
    with pytest.raises(ForecastError, match=r"'test' returned 1 values .* in z\."):
        scored(data)


def test_a_constant_channel_has_no_r2_and_no_skill_but_an_error() -> None:
    data = random_data()
    data["x"][..., 1] = 7.3
    data["floor"][..., 1] = 7.3
    found = scored(data).by("channel")["y"]
    assert found["r2"] is None
    assert found["skill_rmse"] is None
    assert found["rmse"] > 0


def test_a_channel_that_is_never_present_is_left_out_of_the_table() -> None:
    data = random_data()
    data["present"][..., 0] = False
    scores = scored(data)
    assert set(scores.by("channel")) == {"y", "z"}
    assert scores.metrics(channel=["x"]) == {"count": 0.0}


def test_quantile_forecasts_have_no_likelihood() -> None:
    data = random_data()
    levels = (0.025, 0.5, 0.975)
    fan = data["mean"][..., None] + data["scale"][..., None] * torch.tensor([-1.96, 0.0, 1.96])
    scores = Scores("trees", RUNS, REGIMES, HORIZONS, CHANNELS)
    arguments = (data["x"], data["present"], data["floor"], data["run"], data["regime"])
    scores.add(Quantiles(levels, fan, data["mean"]), *arguments)
    assert scores.metrics()["nll"] is None
    assert scores.metrics()["coverage95"] == pytest.approx(scored(data).metrics()["coverage95"], abs=0.01)


def test_physical_units_are_the_metrics_of_rescaled_data() -> None:
    data = random_data()
    in_watts = {
        name: values * 250.0 if name in ("mean", "scale", "x", "floor") else values for name, values in data.items()
    }
    expected = scored(in_watts).by("channel")["y"]
    found = physical(scored(data).by("channel")["y"], 250.0)
    assert found == pytest.approx(expected)


def test_run_sums_feed_the_bootstrap_and_run_rmse_keeps_the_order() -> None:
    data = random_data()
    data["run"] = torch.where(data["run"] == 1, 2, data["run"])
    scores = scored(data)
    assert scores.run_sums(("squared", "count")).shape == (2, 2)
    rmse = scores.run_rmse()
    assert math.isnan(rmse[1])
    assert rmse[2] == pytest.approx(scores.by("run")["c"]["rmse"])


def test_the_mae_is_that_of_the_median_and_the_rmse_that_of_the_mean() -> None:
    """A signal that stands still in two of three windows: the mean is never right, the median mostly is."""
    x = torch.tensor([0.0, 0.0, 3.0], dtype=torch.float64).reshape(3, 1, 1)
    weight, place = torch.tensor([2.0, 1.0]).double().log(), torch.tensor([0.0, 3.0]).double()
    still = Mixture(*(part.expand(3, 1, 1, 2) for part in (weight, place, torch.full((2,), 1e-3).double())))
    scores = Scores("still", ("r",), ("g",), (1,), ("c",))
    nothing = torch.zeros(3, dtype=torch.long)
    scores.add(still, x, torch.ones_like(x), x, nothing, nothing[:, None])
    found = scores.metrics()
    assert found["mae"] == pytest.approx(1.0, abs=1e-2)
    assert found["rmse"] == pytest.approx(math.sqrt(2.0), abs=1e-2)
    assert found["bias"] == pytest.approx(0.0, abs=1e-2)
