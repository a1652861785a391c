"""Forecast sums against independent formulas."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from crossfeed.model.prediction import Context, Prediction
from crossfeed.training.metrics import ForecastScores, ForecastSums

Said = tuple[Tensor, Tensor, Tensor, Tensor]


def scores(
    x_BHC: Tensor, m_BHC: Tensor, mean_BHC: Tensor, log_variance_BHC: Tensor | None = None, batches: int = 1
) -> ForecastScores:
    sums = ForecastSums((1, 2), ("a", "b", "c"), torch.device("cpu"))
    for part in torch.arange(len(x_BHC)).chunk(batches):
        forecast = mean_BHC[part] if log_variance_BHC is None else said(mean_BHC[part], log_variance_BHC[part])
        sums.add(x_BHC[part], m_BHC[part], forecast)
    return sums.scores()


def said(mean: Tensor, log_variance: Tensor, degrees_of_freedom: Tensor | None = None) -> Prediction:
    context = Context(mean, mean, mean, None)
    return Prediction(mean, mean, log_variance, degrees_of_freedom, context)


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


def test_student_t_scores_match_scipy(forecast: Said) -> None:
    x, present, mean, log_variance = (part.double() for part in forecast)
    present, dof = present.bool(), torch.tensor([3.0, 5.0, 30.0], dtype=torch.float64)
    sums = ForecastSums((1, 2), ("a", "b", "c"), torch.device("cpu"))
    prediction = said(mean, log_variance, dof)
    sums.add(x, present, prediction)
    result = sums.scores()
    student = stats.t(dof.expand_as(mean)[present].numpy(), mean[present].numpy(), prediction.scale[present].numpy())
    observed = x[present].numpy()
    assert result.nll == pytest.approx(-student.logpdf(observed).mean())
    low, high = student.interval(0.9)
    assert result.coverage90 == pytest.approx(((low <= observed) & (observed <= high)).mean())
    assert result.crps is None


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
