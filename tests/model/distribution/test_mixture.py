"""The mixture of normals against scipy and scoringrules in float64, its gradients against finite differences."""

import numpy as np
import pytest
import scoringrules
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from torch import Tensor

from crossfeed.model.distribution import Gaussian, Mixture

PROPERTY = settings(deadline=None, derandomize=True, max_examples=60)


def some(shape: tuple[int, ...] = (20, 3), components: int = 3, seed: int = 0) -> Mixture:
    random = torch.Generator().manual_seed(seed)
    log_weight, mean, scale = torch.randn(3, *shape, components, generator=random, dtype=torch.float64)
    return Mixture(log_weight, 3.0 * mean, scale.exp())


def observed(shape: tuple[int, ...] = (20, 3)) -> Tensor:
    return 4.0 * torch.randn(shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[Mixture, Tensor]:
    """One mixture of up to four components from very sharp to very wide, and an observation."""
    count = draw(st.integers(1, 4))
    numbers = st.lists(st.floats(-1.0, 1.0), min_size=count, max_size=count)
    log_weight, place, log_scale = (torch.tensor([draw(numbers)], dtype=torch.float64) for _ in range(3))
    reach = draw(st.sampled_from([1.0, 30.0, 1e6]))
    x = torch.tensor([draw(st.floats(-2.0, 2.0))], dtype=torch.float64) * reach
    return Mixture(4.0 * log_weight, reach * place, (6.0 * log_scale).exp()), x


def test_densities_and_probabilities_agree_with_scipy() -> None:
    mixture, x = some(), observed()
    weight, mean, scale = (part.numpy() for part in (mixture.weight_M, mixture.mean_M, mixture.scale_M))
    at = x.numpy()[..., None]
    density = (weight * stats.norm.pdf(at, mean, scale)).sum(-1)
    np.testing.assert_allclose(mixture.nll(x), -np.log(density), rtol=1e-10)
    np.testing.assert_allclose(mixture.cdf(x), (weight * stats.norm.cdf(at, mean, scale)).sum(-1), atol=1e-13)


def test_the_crps_agrees_with_scoringrules() -> None:
    mixture, x = some(), observed()
    wanted = scoringrules.crps_mixnorm(
        x.numpy(), mixture.mean_M.numpy(), mixture.scale_M.numpy(), mixture.weight_M.numpy(), m_axis=-1
    )
    np.testing.assert_allclose(mixture.crps(x), wanted, rtol=1e-9)


def test_mean_and_deviation_are_those_of_the_density() -> None:
    mixture = some((1,))

    def moment(power: int) -> float:
        def integrand(x: float) -> float:
            return x**power * float(torch.exp(-mixture.nll(torch.tensor([x], dtype=torch.float64))))

        return float(integrate.quad(integrand, -40.0, 40.0, points=mixture.mean_M[0].tolist(), limit=400)[0])

    assert moment(0) == pytest.approx(1.0, rel=1e-7)
    assert mixture.mean.item() == pytest.approx(moment(1), rel=1e-6)
    assert mixture.standard_deviation.item() ** 2 == pytest.approx(moment(2) - moment(1) ** 2, rel=1e-6)


@PROPERTY
@given(mixtures())
def test_the_crps_is_never_negative(drawn: tuple[Mixture, Tensor]) -> None:
    mixture, x = drawn
    assert mixture.crps(x).item() >= -1e-9 * max(1.0, x.abs().item())


@PROPERTY
@given(mixtures(), st.floats(1e-6, 1.0 - 1e-6))
def test_the_probability_of_a_quantile_is_its_level(drawn: tuple[Mixture, Tensor], level: float) -> None:
    mixture, _ = drawn
    value = mixture.quantile(level)
    # A step of one float at a distance of a million spans this much of the sharpest component.
    grain = 2e-16 * value.abs().item() / mixture.scale_M.min().item()
    assert mixture.cdf(value).item() == pytest.approx(level, abs=4e-12 + grain)


@PROPERTY
@given(mixtures(), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_rescaling_commutes_with_everything(drawn: tuple[Mixture, Tensor], shift: float, factor: float) -> None:
    mixture, x = drawn
    location, scale = (torch.tensor([value], dtype=torch.float64) for value in (shift, factor))
    moved, x_moved = mixture.rescaled(location, scale), location + scale * x
    size = max(1.0, (mixture.mean_M.abs().max() / mixture.scale_M.min()).item(), abs(shift) / factor)

    def same(found: Tensor, wanted: Tensor, unit: float = 1.0) -> None:
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-13 * size * size * unit)

    same(moved.mean, location + scale * mixture.mean, factor)
    same(moved.standard_deviation, scale * mixture.standard_deviation, factor)
    same(moved.crps(x_moved), scale * mixture.crps(x), factor * max(1.0, x.abs().item()))
    same(moved.cdf(mixture.quantile(0.3) * scale + location), torch.tensor([0.3], dtype=torch.float64))
    same(moved.cdf(location + scale * mixture.median), torch.tensor([0.5], dtype=torch.float64))


@PROPERTY
@given(st.floats(-5.0, 5.0), st.floats(1e-3, 1e3), st.floats(-50.0, 50.0), st.floats(0.001, 0.999))
def test_one_component_is_a_gaussian(mean: float, scale: float, x: float, level: float) -> None:
    centre, spread, seen = (torch.tensor([value], dtype=torch.float64) for value in (mean, scale, x))
    single = Mixture(torch.tensor([[3.0]]).double(), centre[:, None], spread[:, None])
    gaussian = Gaussian(centre, spread)
    for found, wanted in (
        (single.nll(seen), gaussian.nll(seen)),
        (single.crps(seen), gaussian.crps(seen)),
        (single.cdf(seen), gaussian.cdf(seen)),
        (single.quantile(level), gaussian.quantile(level)),
        (single.mean, gaussian.mean),
        (single.standard_deviation, gaussian.standard_deviation),
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12 * scale)


@PROPERTY
@given(mixtures(), st.sampled_from([-1e6, 1e6]))
def test_a_far_component_without_weight_changes_nothing(drawn: tuple[Mixture, Tensor], far: float) -> None:
    mixture, x = drawn
    wider = Mixture(
        torch.nn.functional.pad(mixture.log_weight_M, (0, 1), value=-torch.inf),
        torch.nn.functional.pad(mixture.mean_M, (0, 1), value=far),
        torch.nn.functional.pad(mixture.scale_M, (0, 1), value=1e-3),
    )
    for found, wanted in (
        (wider.nll(x), mixture.nll(x)),
        (wider.crps(x), mixture.crps(x)),
        (wider.cdf(x), mixture.cdf(x)),
        (wider.median, mixture.median),
        (wider.standard_deviation, mixture.standard_deviation),
    ):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("score", ["nll", "crps"])
def test_gradients_agree_with_finite_differences(score: str) -> None:
    mixture, x = some((4, 2)), observed((4, 2)).requires_grad_()
    parameters = tuple(
        part.clone().requires_grad_() for part in (mixture.log_weight_M, mixture.mean_M, mixture.scale_M)
    )
    assert torch.autograd.gradcheck(lambda w, m, s, at: getattr(Mixture(w, m, s), score)(at), (*parameters, x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.0, 1e-12, 1.0, 1e6])
@pytest.mark.parametrize("distance", [0.0, 1e-9, 1.0, 1e6])
def test_scores_and_gradients_stay_finite_for_zero_spread_and_far_values(
    scale: float, distance: float, dtype: torch.dtype
) -> None:
    log_weight = torch.tensor([[0.0, -30.0, -torch.inf]], dtype=dtype, requires_grad=True)
    mean = torch.tensor([[0.0, distance, -distance]], dtype=dtype, requires_grad=True)
    spread = torch.tensor([[scale, 0.0, 1.0]], dtype=dtype, requires_grad=True)
    x = torch.tensor([distance], dtype=dtype, requires_grad=True)
    for name in ("nll", "crps", "cdf"):
        value = getattr(Mixture(log_weight, mean, spread), name)(x).sum()
        assert value.isfinite(), name
        for gradient in torch.autograd.grad(value, (log_weight, mean, spread, x)):
            assert gradient.isfinite().all(), name
    deviation = Mixture(log_weight, mean, spread).standard_deviation.sum()
    assert all(part.isfinite().all() for part in torch.autograd.grad(deviation, (log_weight, mean, spread)))


def test_zero_spread_is_a_step() -> None:
    still = Mixture(torch.zeros(1, 2).double(), torch.tensor([[1.0, 3.0]]).double(), torch.zeros(1, 2).double())
    at = torch.tensor([[0.5], [2.0], [4.0]]).double()
    torch.testing.assert_close(still.cdf(at), torch.tensor([[0.0], [0.5], [1.0]]).double())
    torch.testing.assert_close(still.quantile(0.2), torch.tensor([1.0]).double())
    torch.testing.assert_close(still.quantile(0.8), torch.tensor([3.0]).double())
    # E|X - x| - E|X - X'| / 2 of two equally likely values two apart.
    torch.testing.assert_close(still.crps(at), torch.tensor([[1.0], [0.5], [1.5]]).double())


def test_single_precision_loses_little() -> None:
    mixture, x = some(), observed()
    single = mixture.map(Tensor.float)
    torch.testing.assert_close(single.crps(x.float()).double(), mixture.crps(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(single.nll(x.float()).double(), mixture.nll(x), rtol=1e-4, atol=1e-4)
    for level in (0.001, 0.5, 0.999):
        torch.testing.assert_close(single.quantile(level).double(), mixture.quantile(level), rtol=1e-4, atol=1e-4)


def test_far_out_ranks_give_values_far_out_in_single_precision() -> None:
    """The level of seven deviations rounds to one in single precision; its quantile would have been infinite."""
    mixture = some().map(Tensor.float)
    far = mixture.from_normal(torch.full((20, 3), 7.0))
    wanted = mixture.double().from_normal(torch.full((20, 3), 7.0).double())
    torch.testing.assert_close(far.double(), wanted, rtol=1e-4, atol=1e-4)


def test_an_ensemble_is_the_equal_union_of_its_members() -> None:
    members = [some(seed=seed) for seed in (0, 1)]
    whole, x = Mixture.stack(members).pooled(), observed()
    torch.testing.assert_close(whole.cdf(x), (members[0].cdf(x) + members[1].cdf(x)) / 2.0)
    torch.testing.assert_close(whole.mean, (members[0].mean + members[1].mean) / 2.0)
    assert whole.mean_M.shape == (20, 3, 6)


def test_the_median_halves_the_draws_and_the_mean_is_their_mean() -> None:
    skewed = Mixture(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 5.0]]), torch.tensor([[0.1, 2.0]])).double()
    many = Mixture(*(part.expand(40_000, 2) for part in (skewed.log_weight_M, skewed.mean_M, skewed.scale_M)))
    draws = many.from_normal(torch.randn(40_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    assert (draws <= skewed.median).double().mean().item() == pytest.approx(0.5, abs=0.01)
    assert draws.mean().item() == pytest.approx(skewed.mean.item(), abs=0.05)
    assert draws.std().item() == pytest.approx(skewed.standard_deviation.item(), abs=0.05)
    assert skewed.median.item() < 0.5 < skewed.mean.item()


def test_a_draw_is_the_value_of_its_rank_where_components_lie_apart() -> None:
    weight, mean = torch.tensor([[0.7, 0.3]], dtype=torch.float64), torch.tensor([[10.0, -10.0]], dtype=torch.float64)
    mixture = Mixture(weight.log(), mean, torch.full_like(mean, 0.5))
    normal = torch.cat([torch.linspace(-2.5, -0.7, 20), torch.linspace(-0.4, 2.5, 20)]).double()[:, None]
    torch.testing.assert_close(mixture.draw(normal), mixture.from_normal(normal), rtol=0.0, atol=1e-6)


def test_every_entry_of_an_array_says_what_it_says_alone() -> None:
    """With as many components as entries along an axis, or a single entry, sums over the wrong axis went unseen."""
    whole, normal = some((5, 4, 2), components=3), observed((5, 4, 2)) / 4.0
    drawn, found, deviation = whole.draw(normal), whole.from_normal(normal), whole.standard_deviation
    for index in np.ndindex(5, 4, 2):
        alone = whole[index]
        torch.testing.assert_close(drawn[index], alone.draw(normal[index]))
        torch.testing.assert_close(found[index], alone.from_normal(normal[index]))
        weight, mean, scale = (part.numpy() for part in (alone.weight_M, alone.mean_M, alone.scale_M))
        variance = (weight * (scale**2 + mean**2)).sum() - (weight * mean).sum() ** 2
        assert deviation[index].item() == pytest.approx(variance**0.5, rel=1e-10)


@pytest.mark.parametrize("far", [-50.0, 50.0])
def test_the_outermost_values_lie_in_a_component_that_weighs_little(far: float) -> None:
    mixture = Mixture(torch.tensor([[0.0, -8.0]]), torch.tensor([[0.0, far]]), torch.ones(1, 2)).double()
    level = 1e-4 if far < 0.0 else 1.0 - 1e-4
    assert mixture.quantile(level).item() == pytest.approx(far, abs=2.0)
    torch.testing.assert_close(mixture.cdf(mixture.quantile(level)), torch.tensor([level], dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_most_extreme_draws_are_numbers(dtype: torch.dtype) -> None:
    mixture = Mixture(*(part.to(dtype) for part in (some().log_weight_M, some().mean_M, some().scale_M)))
    for extreme in (-40.0, -9.0, 9.0, 40.0):
        drawn = mixture.draw(torch.full((20, 3), extreme, dtype=dtype))
        assert drawn.isfinite().all()
        assert (drawn < mixture.mean).all() == (extreme < 0.0)


@PROPERTY
@given(mixtures(), st.floats(0.05, 0.98))
def test_an_interval_holds_what_lies_between_its_quantiles(drawn: tuple[Mixture, Tensor], level: float) -> None:
    mixture, x = drawn
    low, high = mixture.quantiles((0.5 - level / 2.0, 0.5 + level / 2.0))
    clear = 1e-9 * max(1.0, mixture.mean_M.abs().max().item())
    if min((x - low).abs().item(), (x - high).abs().item()) > clear:
        assert mixture.covers(x, level).item() == (low < x < high).item()
