"""VICReg against a plain float64 formula with loops."""

import numpy as np
import pytest
import torch

from crossfeed.model.jepa.vicreg import VICRegConfig, vicreg


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
