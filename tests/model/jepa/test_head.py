"""The head: variance bounds, noise floor, and a loss over present entries only."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.model.distribution import Gaussian
from crossfeed.model.jepa.predictor import Head, HeadConfig
from crossfeed.windows.windows import present_mean


def _head(**settings: object) -> Head:
    torch.manual_seed(0)
    return Head(HeadConfig(**settings), width=8, sensors=3)  # type: ignore[arg-type]


@given(st.floats(-1e4, 1e4))
def test_the_smooth_bound_never_goes_below_the_noise_floor_and_never_loses_its_slope(raw: float) -> None:
    head = _head()
    log_variance = torch.full((1, 1, 3), raw, requires_grad=True)
    bounded = head.bound(log_variance)
    bounded.sum().backward()
    assert (bounded >= head.log_noise).all()
    assert (bounded <= head.config.limit + 1e-3).all()
    assert log_variance.grad is not None
    assert (log_variance.grad > 0.0).all()


def test_the_learned_noise_floor_never_falls_below_the_configured_one() -> None:
    head = _head(noise_floor=0.05)
    assert head.noise is not None
    head.noise.data.fill_(-100.0)
    assert head.log_noise.detach().exp().sqrt() == pytest.approx(0.05)


def test_the_hard_clamp_cuts_at_the_limit() -> None:
    bounded = _head(variance="hard_clamp", limit=8.0).bound(torch.tensor([[[-50.0, 1.0, 50.0]]]))
    assert bounded.flatten().tolist() == [-8.0, 1.0, 8.0]


def test_the_noise_floor_is_learned() -> None:
    head = _head()
    mean, log_variance = head(torch.randn(4, 2, 8))
    said = head.distribution(mean, head.bound(log_variance))
    head.loss(said, torch.randn(4, 2, 3), torch.ones(4, 2, 3, dtype=torch.bool)).backward()
    assert head.noise is not None
    assert head.noise.grad is not None
    assert (head.noise.grad != 0.0).all()


@pytest.mark.parametrize("likelihood", ["nll", "beta_nll"])
@pytest.mark.parametrize("value", [float("nan"), 1e6])
def test_absent_targets_have_no_say(likelihood: str, value: float) -> None:
    head = _head(likelihood=likelihood)
    present = torch.rand(4, 2, 3, generator=torch.Generator().manual_seed(0)) < 0.5
    x = torch.randn(4, 2, 3)
    found = []
    for absent in (0.0, value):
        mean, log_variance = head(torch.ones(4, 2, 8))
        said = head.distribution(mean, head.bound(log_variance))
        loss = head.loss(said, torch.where(present, x, absent), present)
        found.append((loss, *torch.autograd.grad(loss, [head.mean.weight, head.log_variance.weight])))
    assert all(torch.equal(first, second) for first, second in zip(*found))


def test_the_loss_is_the_mean_over_present_entries() -> None:
    head = _head(likelihood="nll")
    present = torch.tensor([[[True, False, True]]])
    mean, log_variance, x = torch.randn(3, 1, 1, 3)
    said = Gaussian(mean, torch.exp(0.5 * log_variance))
    entries = said.nll(x).flatten()
    assert head.loss(said, x, present).item() == pytest.approx(((entries[0] + entries[2]) / 2).item())
    assert present_mean(torch.tensor([math.nan]), torch.tensor([False])).item() == 0.0


@pytest.mark.parametrize("likelihood", ["nll", "beta_nll"])
def test_the_forecast_has_the_deviation_that_was_predicted(likelihood: str) -> None:
    head = _head(likelihood=likelihood)
    mean, log_variance = torch.randn(2, 4, 2, 3)
    said = head.distribution(mean, log_variance)
    torch.testing.assert_close(said.standard_deviation, torch.exp(0.5 * log_variance))
    assert torch.equal(said.mean, mean)
