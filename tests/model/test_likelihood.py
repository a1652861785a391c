"""Likelihoods and quantiles against scipy, in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from crossfeed.model.likelihood import beta_nll, gaussian_nll, student_t_nll, student_t_quantile

errors = st.floats(-50.0, 50.0)
log_variances = st.floats(-8.0, 8.0)


def _tensor(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@given(errors, log_variances)
def test_gaussian_nll_includes_its_constant(error: float, log_variance: float) -> None:
    wanted = -stats.norm.logpdf(error, scale=np.exp(0.5 * log_variance))
    assert gaussian_nll(_tensor(error), _tensor(log_variance)).item() == pytest.approx(wanted, rel=1e-9)


@given(errors, log_variances, st.floats(2.1, 200.0))
def test_student_t_nll_has_the_stated_variance(error: float, log_variance: float, dof: float) -> None:
    scale = np.exp(0.5 * log_variance) * np.sqrt((dof - 2.0) / dof)
    wanted = -stats.t.logpdf(error, dof, scale=scale)
    assert student_t_nll(_tensor(error), _tensor(log_variance), _tensor(dof)).item() == pytest.approx(wanted, rel=1e-8)


def test_beta_nll_weighs_by_the_variance_without_a_gradient_through_the_weight() -> None:
    error = torch.tensor([0.3, -2.0], dtype=torch.float64)
    log_variance = torch.tensor([-1.0, 2.0], dtype=torch.float64, requires_grad=True)
    loss = beta_nll(error, log_variance, 0.5)
    variance = log_variance.detach().exp()
    wanted = variance**0.5 * -torch.from_numpy(stats.norm.logpdf(error.numpy(), scale=variance.sqrt().numpy()))
    torch.testing.assert_close(loss.detach(), wanted)
    loss.sum().backward()
    torch.testing.assert_close(log_variance.grad, variance**0.5 * 0.5 * (1.0 - error**2 / variance))


@pytest.mark.parametrize("dof", [2.1, 3.0, 5.5, 30.0, 500.0])
@pytest.mark.parametrize("level", [0.001, 0.05, 0.5, 0.9, 0.999])
def test_student_t_quantiles_agree_with_scipy(level: float, dof: float) -> None:
    found = student_t_quantile(level, torch.tensor([dof])).item()
    assert found == pytest.approx(stats.t.ppf(level, np.float32(dof)), rel=1e-6, abs=1e-9)
