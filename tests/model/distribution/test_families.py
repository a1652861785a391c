"""Every closed form against an independent implementation: scipy for densities, scoringrules for the CRPS."""

from dataclasses import replace

import numpy as np
import pytest
import scoringrules
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from crossfeed.errors import ConfigError, ForecastError
from crossfeed.model.distribution import Distribution, Gaussian, Mixture, Point, Quantiles
from crossfeed.model.distribution import mixture as inversion
from crossfeed.model.distribution.distribution import floored, tensors_of


@pytest.fixture
def sample() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    shape = (40, 5, 3)
    return (
        generator.normal(size=shape) * 3.0,
        generator.normal(size=shape),
        np.exp(generator.normal(size=shape)),
    )


def test_gaussian_agrees_with_scipy_and_scoringrules(sample: tuple[np.ndarray, ...]) -> None:
    x, mean, scale = sample
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


def test_the_gradient_of_the_likelihood_is_right() -> None:
    x = torch.tensor([0.3, -2.0, 5.0], dtype=torch.float64)
    mean = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    scale = torch.ones(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m, s: Gaussian(m, s).nll(x), (mean, scale))


def test_rescaling_is_a_change_of_unit(sample: tuple[np.ndarray, ...]) -> None:
    x, mean, scale = (torch.tensor(values) for values in sample)
    location, factor = torch.tensor([1.0, -2.0, 100.0]).double(), torch.tensor([0.1, 7.0, 1000.0]).double()
    levels = (0.1, 0.5, 0.9)
    fan = mean[..., None] + scale[..., None] * torch.tensor([-1.0, 0.0, 1.0]).double()
    for distribution in (Gaussian(mean, scale), Quantiles(levels, fan, mean)):
        moved = distribution.rescaled(location, factor)
        x_moved = location + factor * x
        torch.testing.assert_close(moved.cdf(x_moved), distribution.cdf(x))
        torch.testing.assert_close(moved.crps(x_moved), factor * distribution.crps(x))
        torch.testing.assert_close(moved.standard_deviation, factor * distribution.standard_deviation)
        before = distribution.nll(x)
        if before is not None:
            torch.testing.assert_close(moved.nll(x_moved), before + factor.log())


@settings(deadline=None, derandomize=True, max_examples=40)
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


def test_between_the_outermost_quantiles_too_the_share_below_is_interpolated() -> None:
    fan = Quantiles((0.1, 0.3, 0.6, 0.9), torch.tensor([[-2.0, 0.0, 1.0, 5.0]]).double(), torch.zeros(1).double())
    for level in (0.1, 0.15, 0.25, 0.3, 0.45, 0.65, 0.85, 0.9):
        assert fan.cdf(fan.quantile(level)).item() == pytest.approx(level)
    assert fan.quantile(0.75).item() == pytest.approx(3.0)
    # Beyond the outermost ones half of what is left lies.
    assert [fan.cdf(torch.tensor([x]).double()).item() for x in (-2.5, 5.5)] == pytest.approx([0.05, 0.95])


def families() -> list[Distribution]:
    random = torch.Generator().manual_seed(0)
    mean, scale, other = torch.randn(3, 6, 4, 2, generator=random, dtype=torch.float64)
    fan = mean[..., None] + scale.exp()[..., None] * torch.tensor([-1.0, 0.2, 1.0]).double()
    return [
        Point(mean),
        Gaussian(mean, scale.exp()),
        Mixture(torch.stack([mean, other], -1), torch.stack([other, scale], -1), torch.stack([scale, mean], -1).exp()),
        Quantiles((0.1, 0.5, 0.9), fan, mean),
    ]


@pytest.mark.parametrize("whole", families(), ids=lambda family: type(family).__name__)
def test_pieces_say_what_the_whole_says(whole: Distribution) -> None:
    x = torch.randn(6, 4, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for index in ((slice(1, 3),), (slice(None), 2), (Ellipsis, 1), (torch.tensor([4, 0]),)):
        torch.testing.assert_close(whole[index].crps(x[index]), whole.crps(x)[index])
        torch.testing.assert_close(whole[index].quantile(0.7), whole.quantile(0.7)[index])
        assert whole[index].shape == x[index].shape
    torch.testing.assert_close(Distribution.concatenate([whole[:4], whole[4:]]).crps(x), whole.crps(x))
    turned = Distribution.concatenate([whole[:, 2:], whole[:, :2]], 1)
    torch.testing.assert_close(turned.mean, whole.mean.roll(2, 1))
    slots = Distribution.stack([whole[:, slot] for slot in (3, 1)], 1)
    torch.testing.assert_close(slots.cdf(x[:, [3, 1]]), whole.cdf(x)[:, [3, 1]])


@pytest.mark.parametrize("family", families(), ids=lambda family: type(family).__name__)
def test_every_family_keeps_the_promises_of_the_interface(family: Distribution) -> None:
    x = torch.randn(6, 4, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert (family.crps(x) >= 0.0).all()
    normal = torch.randn(6, 4, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    level = torch.special.ndtr(normal)
    torch.testing.assert_close(family.from_normal(normal), family.quantile(level), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(family.quantile(level)[2, 1, 0], family[2, 1, 0].quantile(level[2, 1, 0]))
    torch.testing.assert_close(family.median, family.quantile(0.5))
    for held in (0.5, 0.9):
        low, high = family.quantile(0.5 - 0.5 * held), family.quantile(0.5 + 0.5 * held)
        assert torch.equal(family.covers(x, held), (x >= low) & (x <= high))
    assert family.from_normal(normal).shape == x.shape
    torch.testing.assert_close(family.with_mean(x).mean, x)
    torch.testing.assert_close(family.with_mean(x).standard_deviation, family.standard_deviation)
    location, scale = torch.tensor([3.0, -1.0]).double(), torch.tensor([2.0, 0.5]).double()
    moved = family.rescaled(location, scale)
    torch.testing.assert_close(moved.crps(location + scale * x), scale * family.crps(x))
    torch.testing.assert_close(moved.from_normal(normal), location + scale * family.from_normal(normal))


@pytest.mark.parametrize("family", families(), ids=lambda family: type(family).__name__)
def test_many_levels_at_once_are_the_levels_one_by_one(family: Distribution) -> None:
    levels = (1e-3, 0.05, 0.5, 0.9, 0.999)
    found = family.quantiles(levels)
    torch.testing.assert_close(found, torch.stack([family.quantile(level) for level in levels]), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(family.crps(found), torch.stack([family.crps(one) for one in found]))


@pytest.mark.parametrize("family", families()[1:3], ids=lambda family: type(family).__name__)
def test_a_fixed_shape_learns_only_where_it_stands(family: Distribution) -> None:
    leaves = {name: part.clone().requires_grad_() for name, part in tensors_of(family).items()}
    free = replace(family, **leaves)  # type: ignore[type-var]
    nll = free.fixed_shape().nll(torch.zeros(6, 4, 2).double())
    assert nll is not None
    nll.sum().backward()
    assert [name for name, leaf in leaves.items() if leaf.grad is not None] in (["mean"], ["mean_M"])


@pytest.mark.parametrize("family", families()[1:3], ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("level", [1e-4, 0.05, 0.5, 0.75, 0.9999])
def test_a_quantile_has_the_probability_of_its_level(family: Distribution, level: float) -> None:
    torch.testing.assert_close(
        family.cdf(family.quantile(level)), torch.full((6, 4, 2), level, dtype=torch.float64), rtol=1e-9, atol=0.0
    )


def test_the_crps_has_the_right_gradient() -> None:
    mean, x = torch.randn(2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mean, scale = mean.requires_grad_(), torch.linspace(0.2, 2.0, 5).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda m, s: Gaussian(m, s).crps(x), (mean, scale))


@pytest.mark.parametrize("likelihood", [0.0, 0.5, 1.0])
def test_beta_nll_weighs_by_the_variance_without_a_gradient_through_the_weight(likelihood: float) -> None:
    error = torch.tensor([0.3, -2.0], dtype=torch.float64)
    scale = torch.tensor([0.6, 2.7], dtype=torch.float64, requires_grad=True)
    loss = Gaussian(torch.zeros(2).double(), scale).beta_nll(error, likelihood)
    variance = scale.detach() ** 2
    wanted = variance**likelihood * -torch.from_numpy(stats.norm.logpdf(error.numpy(), scale=scale.detach().numpy()))
    torch.testing.assert_close(loss.detach(), wanted)
    loss.sum().backward()
    torch.testing.assert_close(scale.grad, variance**likelihood * (1.0 - error**2 / variance) / scale.detach())


@pytest.mark.parametrize("level", [0.0, 1.0, -0.2, float("nan")])
def test_levels_outside_zero_and_one_are_refused(level: float) -> None:
    for family in families()[1:]:
        with pytest.raises(ConfigError, match="level between 0 and 1"):
            family.quantile(level)


def test_forecasts_of_two_families_are_not_joined() -> None:
    with pytest.raises(ForecastError, match="Gaussian, Point cannot be joined"):
        Distribution.concatenate(families()[:2])


@given(st.integers(0, 2**31))
@settings(max_examples=10, deadline=None)
def test_draws_of_a_mixture_have_its_distribution(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    mixture = Mixture(*(torch.randn(4, generator=generator, dtype=torch.float64) for _ in range(2)), torch.rand(4))
    normal = torch.special.ndtri((torch.arange(4000, dtype=torch.float64) + 0.5) / 4000)
    drawn = mixture.draw(normal)
    # Every rank once: so many draws lie below a value as its probability says, but for one in each component.
    for level in (0.05, 0.3, 0.5, 0.8, 0.95):
        value = mixture.quantile(level)
        assert abs(float((drawn <= value).double().mean()) - level) < 4.5 / 4000


def test_many_draws_of_few_forecasts_are_those_of_forecasts_of_their_own() -> None:
    generator = torch.Generator().manual_seed(0)
    parts = (torch.randn(3, 4, 5, generator=generator) for _ in range(3))
    mixture = Mixture(*(part.exp() if place == 2 else part for place, part in enumerate(parts)))
    gaussian = Gaussian(mixture.mean, mixture.standard_deviation)
    of, normal = torch.tensor([2, 0, 0, 1, 2, 1]), torch.randn(6, 4, generator=generator)
    for said in (mixture, gaussian):
        assert torch.equal(said.draw(normal, of), said[of].draw(normal))


def test_a_search_that_is_asked_whether_it_rests_goes_on_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, which is asked now and then: bisection that converges slowly must not be cut off there."""
    asked: list[int] = []

    def may_ask(values: torch.Tensor) -> bool:
        asked.append(len(values))
        return True

    def steep(x_N: torch.Tensor, zero_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Flat but for a step, so that Newton's steps leave every bracket."""
        away_N = 1e9 * (x_N - zero_N)
        return torch.tanh(away_N), 1e9 / torch.cosh(away_N.clamp(-300.0, 300.0)).square()

    monkeypatch.setattr(inversion, "_may_ask", may_ask)
    zero_N = torch.tensor([0.3, -0.7, 0.1234], dtype=torch.float64)
    low_N, near_N = torch.full_like(zero_N, -1.0), torch.full_like(zero_N, 1e-6)
    found_N = inversion.find_root(steep, low_N, -low_N, near_N, zero_N)
    torch.testing.assert_close(found_N, zero_N, rtol=0.0, atol=1e-12)
    assert asked


@pytest.mark.parametrize("score", ["nll", "crps"])
def test_even_without_any_spread_a_miss_of_a_million_has_a_gradient(score: str) -> None:
    """The floor of the spread is as low as it can be for that in single precision."""
    mean, scale = torch.zeros(1, requires_grad=True), floored(torch.zeros(1)).requires_grad_()
    assert scale.item() < 1e-7
    getattr(Gaussian(mean, scale), score)(torch.full((1,), 1e6)).sum().backward()
    for parameter in (mean, scale):
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
