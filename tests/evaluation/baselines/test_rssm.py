"""The state-space model is a real one: stochastic state, divergence, prior rolled out under commands."""

from dataclasses import replace

import torch

from crossfeed.evaluation.baselines.network import Features, NetworkInputs, Shape
from crossfeed.evaluation.baselines.small_networks import Rssm
from crossfeed.windows.windows import WindowSet


def rssm(shape: Shape) -> Rssm:
    torch.manual_seed(0)
    return Rssm(Features(shape, NetworkInputs()), width=16, stochastic=4).eval()


def test_a_forecast_does_not_depend_on_who_else_is_in_the_batch(parts: dict[str, WindowSet], shape: Shape) -> None:
    model = rssm(shape)
    together = model(parts["train"].batch(torch.arange(6))).mean
    alone = torch.cat([model(parts["train"].batch(torch.tensor([i]))).mean for i in range(6)])
    assert torch.allclose(together, alone, atol=1e-6)


def test_training_noise_comes_from_the_generator(parts: dict[str, WindowSet], shape: Shape) -> None:
    model, batch = rssm(shape), parts["train"].batch(torch.arange(6))
    losses = [model.objective(batch, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2])


def test_the_spread_of_the_samples_is_part_of_the_forecast_variance(parts: dict[str, WindowSet], shape: Shape) -> None:
    model, batch = rssm(shape), parts["train"].batch(torch.arange(6))
    spread = model(batch).standard_deviation
    model.noise_TSZ.zero_()
    without = model(batch).standard_deviation
    assert spread.mean() > without.mean()


def test_an_absent_context_still_gives_a_forecast(parts: dict[str, WindowSet], shape: Shape) -> None:
    batch = parts["train"].batch(torch.arange(4))
    nothing = replace(batch, m_BKC=torch.zeros_like(batch.m_BKC))
    assert rssm(shape)(nothing).mean.isfinite().all()
    assert rssm(shape).objective(nothing, torch.Generator()).isfinite()
