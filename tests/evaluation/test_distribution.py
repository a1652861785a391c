"""Every closed form against an independent implementation: scipy for densities, scoringrules for the CRPS."""

import numpy as np
import pytest
import scoringrules
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from crossfeed.evaluation.distribution import Gaussian, Quantiles, StudentT


@pytest.fixture
def sample() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    shape = (40, 5, 3)
    return (
        generator.normal(size=shape) * 3.0,
        generator.normal(size=shape),
        np.exp(generator.normal(size=shape)),
        generator.uniform(1.5, 30.0, size=shape),
    )


def test_gaussian_agrees_with_scipy_and_scoringrules(sample: tuple[np.ndarray, ...]) -> None:
    x, mean, scale, _ = sample
    ours = Gaussian(torch.tensor(mean), torch.tensor(scale))
    theirs = stats.norm(mean, scale)
    observed = torch.tensor(x)
    np.testing.assert_allclose(ours.nll(observed), -theirs.logpdf(x), rtol=1e-10)
    np.testing.assert_allclose(ours.cdf(observed), theirs.cdf(x), atol=1e-12)
    np.testing.assert_allclose(ours.crps(observed), scoringrules.crps_normal(x, mean, scale), rtol=1e-9)
    np.testing.assert_allclose(ours.quantile(0.95), theirs.ppf(0.95), rtol=1e-10)
    np.testing.assert_allclose(ours.standard_deviation, theirs.std())


def test_the_constant_of_the_gaussian_nll_is_included() -> None:
    standard = Gaussian(torch.zeros(1), torch.ones(1))
    assert standard.nll(torch.zeros(1)).item() == pytest.approx(0.9189385, abs=1e-6)


def test_student_t_agrees_with_scipy_and_scoringrules(sample: tuple[np.ndarray, ...]) -> None:
    x, mean, scale, nu = sample
    ours = StudentT(torch.tensor(mean), torch.tensor(scale), torch.tensor(nu))
    theirs = stats.t(nu, mean, scale)
    observed = torch.tensor(x)
    np.testing.assert_allclose(ours.nll(observed), -theirs.logpdf(x), rtol=1e-9)
    np.testing.assert_allclose(ours.cdf(observed), theirs.cdf(x), atol=1e-12)
    np.testing.assert_allclose(ours.quantile(0.9), theirs.ppf(0.9), rtol=1e-9)
    np.testing.assert_allclose(ours.crps(observed), scoringrules.crps_t(x, nu, mean, scale), rtol=1e-7)
    np.testing.assert_allclose(ours.standard_deviation, theirs.std())


def test_the_gradient_of_both_likelihoods_is_right() -> None:
    x = torch.tensor([0.3, -2.0, 5.0], dtype=torch.float64)
    nu = torch.full((3,), 4.0, dtype=torch.float64)
    mean = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    scale = torch.ones(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m, s: Gaussian(m, s).nll(x), (mean, scale))
    assert torch.autograd.gradcheck(lambda m, s: StudentT(m, s, nu).nll(x), (mean, scale))


def test_rescaling_is_a_change_of_unit(sample: tuple[np.ndarray, ...]) -> None:
    x, mean, scale, nu = (torch.tensor(values) for values in sample)
    location, factor = torch.tensor([1.0, -2.0, 100.0]).double(), torch.tensor([0.1, 7.0, 1000.0]).double()
    levels = (0.1, 0.5, 0.9)
    fan = mean[..., None] + scale[..., None] * torch.tensor([-1.0, 0.0, 1.0]).double()
    for distribution in (Gaussian(mean, scale), StudentT(mean, scale, nu), Quantiles(levels, fan, mean)):
        moved = distribution.rescaled(location, factor)
        x_moved = location + factor * x
        torch.testing.assert_close(moved.cdf(x_moved), distribution.cdf(x))
        torch.testing.assert_close(moved.crps(x_moved), factor * distribution.crps(x))
        torch.testing.assert_close(moved.standard_deviation, factor * distribution.standard_deviation)
        before = distribution.nll(x)
        if before is not None:
            torch.testing.assert_close(moved.nll(x_moved), before + factor.log())


@settings(max_examples=40)
@given(
    observation=st.floats(-4.0, 4.0),
    steps=st.lists(st.floats(0.0, 2.0), min_size=2, max_size=6),
    first=st.floats(-3.0, 1.0),
)
def test_quantile_crps_equals_the_pinball_integral(observation: float, steps: list[float], first: float) -> None:
    values = np.concatenate([[first], first + np.cumsum(steps)])
    levels = tuple(np.linspace(0.05, 0.95, len(values)))
    ours = Quantiles(levels, torch.tensor(values)[None], torch.tensor([values.mean()]))

    def pinball(level: float) -> float:
        quantile = np.interp(level, levels, values)
        return 2.0 * (observation - quantile) * (level - float(observation < quantile))

    expected, _ = integrate.quad(pinball, 0.0, 1.0, points=list(levels), limit=400)
    assert ours.crps(torch.tensor([observation]).double()).item() == pytest.approx(expected, abs=2e-4)


def test_many_quantiles_of_a_normal_behave_like_the_normal() -> None:
    levels = tuple(np.linspace(0.001, 0.999, 999))
    values = torch.tensor(stats.norm.ppf(levels))
    x = torch.tensor([-1.7, -0.2, 0.0, 1.1]).double()
    fan = Quantiles(levels, values.expand(4, -1), torch.zeros(4).double())
    np.testing.assert_allclose(fan.crps(x), scoringrules.crps_normal(x.numpy(), 0.0, 1.0), atol=1e-4)
    np.testing.assert_allclose(fan.cdf(x), stats.norm.cdf(x), atol=1e-5)
    np.testing.assert_allclose(fan.standard_deviation, 1.0, atol=0.01)
    np.testing.assert_allclose(fan.quantile(0.25), stats.norm.ppf(0.25), atol=1e-5)
    assert fan.nll(x) is None
