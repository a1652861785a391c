"""VICReg against a plain float64 formula with loops, SIGReg against numerical integration in float64."""

import numpy as np
import pytest
import torch
from scipy import integrate

from crossfeed.model.jepa.regularisers import SIGRegConfig, VICRegConfig, epps_pulley, sigreg, vicreg


def _reference(latent: np.ndarray, config: VICRegConfig) -> float:
    number, width = latent.shape
    hinge = sum(max(0.0, 1.0 - np.sqrt(latent[:, j].var() + config.epsilon)) for j in range(width)) / width
    covariance = np.cov(latent.T, ddof=1)
    off = sum(covariance[i, j] ** 2 for i in range(width) for j in range(width) if i != j) / width
    assert number > 1
    return config.variance * hinge + config.covariance * off


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_vicreg_agrees_with_loops_and_averages_over_groups(spread: float) -> None:
    torch.manual_seed(0)
    mixing = torch.randn(6, 6)
    latent = spread * torch.randn(3, 20, 6) @ mixing
    config = VICRegConfig()
    wanted = np.mean([_reference(group.double().numpy(), config) for group in latent])
    assert vicreg(latent, config).item() == pytest.approx(wanted, rel=1e-4)


def test_collapsed_latents_are_pushed_apart() -> None:
    latent = (1e-3 * torch.randn(1, 16, 4)).requires_grad_()
    vicreg(latent, VICRegConfig()).backward()
    assert latent.grad is not None
    assert latent.grad.abs().max() > 0.01


def _statistic(sample: np.ndarray, extent: float) -> float:
    def density(t: float) -> float:
        empirical = np.exp(1j * t * sample).mean()
        return float(abs(empirical - np.exp(-0.5 * t * t)) ** 2 * np.exp(-0.5 * t * t))

    return len(sample) * integrate.quad(density, -extent, extent, limit=200)[0]


def test_epps_pulley_converges_to_the_integral() -> None:
    sample = np.random.default_rng(0).gamma(2.0, size=(40, 3)) - 1.0
    found = epps_pulley(torch.from_numpy(sample), SIGRegConfig(knots=2001))
    np.testing.assert_allclose(found.numpy(), [_statistic(column, 3.0) for column in sample.T], rtol=1e-5)


def test_the_default_knots_are_fine_enough() -> None:
    sample = np.random.default_rng(1).normal(size=(64, 8))
    coarse, fine = (epps_pulley(torch.from_numpy(sample), SIGRegConfig(knots=knots)) for knots in (17, 2001))
    np.testing.assert_allclose(coarse.numpy(), fine.numpy(), rtol=0.02)


@pytest.mark.parametrize("spoil", [lambda z: 0.2 * z, lambda z: z + 2.0, lambda z: torch.sign(z)])
def test_isotropic_normal_latents_score_lower_than_others(spoil: object) -> None:
    torch.manual_seed(0)
    normal = torch.randn(2, 256, 8)
    draw = torch.Generator().manual_seed(0)
    good, bad = (sigreg(latent, SIGRegConfig(), draw).item() for latent in (normal, spoil(normal)))  # type: ignore[operator]
    assert good < 2.0 < bad


def test_a_generator_makes_the_directions_reproducible() -> None:
    latent = torch.randn(1, 16, 8)
    first, second = (sigreg(latent, SIGRegConfig(), torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, sigreg(latent, SIGRegConfig(), torch.Generator().manual_seed(4)))
