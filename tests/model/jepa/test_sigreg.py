"""SIGReg against numerical integration of the empirical characteristic function in float64."""

import numpy as np
import pytest
import torch
from scipy import integrate

from crossfeed.model.jepa.sigreg import SIGRegConfig, epps_pulley, sigreg


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
