"""Fused activation and dropout: the same function and gradient as one after the other."""

import pytest
import torch
from torch import nn

from crossfeed.model.activation import DroppedActivation, normal_distribution
from crossfeed.model.dropout import Dropout, hashed_dropout


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.GELU()])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5])
def test_it_is_the_activation_followed_by_the_hashed_dropout(activation: nn.Module, rate: float) -> None:
    dropout = Dropout(rate)
    dropout.seed = torch.tensor([7])
    x = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    found = DroppedActivation(activation, dropout)(ours)
    expected = activation(theirs)
    expected = hashed_dropout(expected, rate, dropout.seed) if rate else expected
    gradient = torch.randn(40, 50, generator=torch.Generator().manual_seed(1))
    found.backward(gradient)
    expected.backward(gradient.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    assert ours.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-6)


def test_nothing_is_dropped_outside_of_training() -> None:
    dropout = Dropout(0.5)
    dropout.seed = torch.tensor([7])
    x = torch.randn(20, 20)
    torch.testing.assert_close(DroppedActivation(nn.ReLU(), dropout).eval()(x), x.relu())


def test_normal_distribution_is_accurate_to_float32() -> None:
    x = torch.linspace(-8.0, 8.0, 4001, dtype=torch.float64)
    share, density = normal_distribution(x)
    torch.testing.assert_close(share.double(), torch.special.ndtr(x), rtol=0.0, atol=3e-7)
    torch.testing.assert_close(density.double(), torch.exp(-0.5 * x * x) / (2.0 * torch.pi) ** 0.5, rtol=0.0, atol=1e-7)
