"""Forecast sums against independent formulas."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from crossfeed.model.distribution import Distribution, Gaussian, Mixture, Point
from crossfeed.training.reading import ForecastScores, ForecastSums

Said = tuple[Tensor, Tensor, Tensor, Tensor]


def scores(
    x_BHC: Tensor, m_BHC: Tensor, mean_BHC: Tensor, log_variance_BHC: Tensor | None = None, batches: int = 1
) -> ForecastScores:
    sums = ForecastSums((1, 2), ("a", "b", "c"), torch.device("cpu"))
    for part in torch.arange(len(x_BHC)).chunk(batches):
        forecast = Point(mean_BHC) if log_variance_BHC is None else said(mean_BHC, log_variance_BHC)
        sums.add(x_BHC[part], m_BHC[part], forecast[part])
    return sums.scores()


def said(mean: Tensor, log_variance: Tensor) -> Distribution:
    return Gaussian(mean, torch.exp(0.5 * log_variance))


@pytest.fixture
def forecast() -> Said:
    generator = torch.Generator().manual_seed(0)
    x, mean, log_variance = (torch.randn(40, 2, 3, generator=generator) for _ in range(3))
    present = torch.rand(40, 2, 3, generator=generator) > 0.3
    present[:, :, 2] = False
    return x, present, mean, log_variance


def test_point_scores_use_present_entries_only(forecast: Said) -> None:
    x, present, mean, _ = forecast
    error = (mean - x)[present].double().numpy()
    spoiled = torch.where(present, x, torch.nan)
    result = scores(spoiled, present, mean)
    assert result.rmse == pytest.approx(np.sqrt((error**2).mean()))
    assert result.mae == pytest.approx(np.abs(error).mean())
    assert result.nll is None
    assert result.coverage90 is None
    assert result.crps == pytest.approx(result.mae)
    assert result.rmse_by_channel["c"] is None
    first = (mean - x)[:, 0][present[:, 0]]
    assert result.rmse_by_horizon[1] == pytest.approx(first.square().mean().sqrt().item())


def test_probabilistic_scores_match_scipy(forecast: Said) -> None:
    x, present, mean, log_variance = forecast
    result = scores(x, present, mean, log_variance)
    normal = stats.norm(mean[present].double().numpy(), (0.5 * log_variance[present].double()).exp().numpy())
    observed = x[present].double().numpy()
    assert result.nll == pytest.approx(-normal.logpdf(observed).mean())
    low, high = normal.interval(0.9)
    assert result.coverage90 == pytest.approx(((low <= observed) & (observed <= high)).mean())


def test_crps_is_the_integral_it_stands_for() -> None:
    one = torch.ones(1, 1, 1)
    sums = ForecastSums((1,), ("a",), torch.device("cpu"))
    sums.add(0.7 * one, one.bool(), said(-0.2 * one, math.log(1.5**2) * one))
    normal = stats.norm(-0.2, 1.5)
    left, _ = integrate.quad(lambda y: normal.cdf(y) ** 2, -20, 0.7)
    right, _ = integrate.quad(lambda y: (1 - normal.cdf(y)) ** 2, 0.7, 20)
    assert sums.scores().crps == pytest.approx(left + right, rel=1e-5)


def test_batching_does_not_matter(forecast: Said) -> None:
    assert scores(*forecast, batches=7).rmse == pytest.approx(scores(*forecast).rmse, rel=1e-12)


def test_the_mae_is_that_of_the_median_and_the_rmse_that_of_the_mean() -> None:
    """For a machine that stands still in two of three windows, the mean is never right and the median mostly is."""
    x = torch.tensor([0.0, 0.0, 3.0]).reshape(3, 1, 1)
    weight, place = torch.tensor([2.0, 1.0]).log(), torch.tensor([0.0, 3.0])
    still = Mixture(*(part.expand(3, 1, 1, 2) for part in (weight, place, torch.full((2,), 1e-3))))
    sums = ForecastSums((1,), ("a",), torch.device("cpu"))
    sums.add(x, torch.ones(3, 1, 1, dtype=torch.bool), still)
    result = sums.scores()
    assert result.mae == pytest.approx(1.0, abs=1e-2)
    assert result.rmse == pytest.approx(math.sqrt(2.0), abs=1e-2)
