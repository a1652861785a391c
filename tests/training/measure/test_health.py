"""Health diagnostics against constructions whose answer is known."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.training.config import HealthConfig
from crossfeed.training.health import collapse_reasons, effective_rank, latent_health, ridge_probe


def gaussian(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_orthogonal_latents_have_full_rank() -> None:
    z_ND = torch.cat([torch.eye(16), -torch.eye(16)])
    assert effective_rank(z_ND).item() == pytest.approx(1.0)


def test_rank_is_centred() -> None:
    """A common offset must not look like a dominant direction, nor hide one."""
    z_ND = gaussian(200, 8)
    assert effective_rank(z_ND + 1e3).item() == pytest.approx(effective_rank(z_ND).item(), rel=1e-6)


def test_rank_of_one_direction_is_one_coordinate() -> None:
    z_ND = gaussian(200, 1) * torch.ones(1, 8)
    assert effective_rank(z_ND).item() == pytest.approx(1 / 8, abs=1e-5)


def test_rank_matches_the_formula_on_singular_values() -> None:
    z_ND = gaussian(64, 6) * torch.tensor([3.0, 2.0, 1.0, 0.5, 0.1, 0.01])
    singular = torch.linalg.svdvals(z_ND - z_ND.mean(0))
    share = singular / singular.sum()
    expected = math.exp(-(share * share.log()).sum().item()) / 6
    assert effective_rank(z_ND).item() == pytest.approx(expected, rel=1e-9)


@settings(max_examples=25)
@given(scale=st.floats(1e-4, 1e4), seed=st.integers(0, 10))
def test_everything_but_the_raw_spread_is_scale_free(scale: float, seed: int) -> None:
    z_ND = gaussian(50, 5, seed)
    plain, scaled = latent_health(z_ND), latent_health(z_ND * scale)
    for name in ("rank", "relative_spread", "correlation", "varying"):
        assert scaled[name].item() == pytest.approx(plain[name].item(), rel=1e-6)
    assert scaled["raw_spread"].item() == pytest.approx(plain["raw_spread"].item() * scale, rel=1e-6)


def test_spread_is_the_smallest_coordinate_against_the_median() -> None:
    z_ND = torch.tensor([[1.0], [-1.0]]) * torch.tensor([[0.1, 2.0, 4.0]])
    health = latent_health(z_ND)
    assert health["raw_spread"].item() == pytest.approx(0.1)
    assert health["relative_spread"].item() == pytest.approx(0.05)


def test_constant_latents_give_numbers_not_nan() -> None:
    health = {name: value.item() for name, value in latent_health(torch.ones(20, 4)).items()}
    assert all(math.isfinite(value) for value in health.values())
    assert len(collapse_reasons(health, HealthConfig())) == 2


def test_correlation_of_copied_coordinates_is_one() -> None:
    z_ND = gaussian(100, 1) * torch.ones(1, 4)
    assert latent_health(z_ND)["correlation"].item() == pytest.approx(1.0)


def test_all_windows_at_one_point_hardly_vary() -> None:
    """Centred rank and relative spread look healthy when all windows fall on one point with a little noise."""
    z_ND = torch.ones(200, 8) + 0.02 * gaussian(200, 8)
    health = {name: value.item() for name, value in latent_health(z_ND).items()}
    assert health["varying"] == pytest.approx(0.02, rel=0.1)
    (reason,) = collapse_reasons(health, HealthConfig())
    assert "varies between windows" in reason


def test_collapse_names_what_fell_below_what() -> None:
    small_but_even = {"rank": 0.6, "relative_spread": 0.9, "raw_spread": 0.01, "varying": 0.9}
    assert collapse_reasons(small_but_even, HealthConfig()) == []
    (reason,) = collapse_reasons(small_but_even, HealthConfig(spread="raw"))
    assert "raw spread of the flattest coordinate 0.01, below 0.05" in reason
    (reason,) = collapse_reasons(small_but_even | {"rank": math.nan}, HealthConfig())
    assert "effective rank nan, below 0.1" in reason


def probe_data(seed: int, informative: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    z_ND = gaussian(300, 6, seed)
    map_DHC = gaussian(6, 2 * 3, 99).view(6, 2, 3)
    source_ND = z_ND if informative else gaussian(300, 6, seed + 50)
    return z_ND, torch.einsum("nd,dhc->nhc", source_ND, map_DHC) + 2.0, torch.ones(300, 2, 3, dtype=torch.bool)


def test_probe_reads_a_linear_code_and_nothing_from_noise() -> None:
    assert ridge_probe(probe_data(0, True), probe_data(1, True)).item() > 0.99
    assert ridge_probe(probe_data(0, False), probe_data(1, False)).item() < 0.1


def test_probe_never_reads_absent_entries() -> None:
    z_ND, y_NHC, m_NHC = probe_data(0, True)
    m_NHC = m_NHC.clone()
    m_NHC[:, :, 2] = False
    m_NHC[::2, 0, 1] = False
    spoiled_NHC = torch.where(m_NHC, y_NHC, 1e6)
    test = probe_data(1, True)
    plain = ridge_probe((z_ND, torch.where(m_NHC, y_NHC, 0.0), m_NHC), (test[0], test[1], m_NHC))
    spoiled = ridge_probe((z_ND, spoiled_NHC, m_NHC), (test[0], torch.where(m_NHC, test[1], -1e6), m_NHC))
    assert plain.item() == pytest.approx(spoiled.item(), rel=1e-9)
    assert plain.item() > 0.99
