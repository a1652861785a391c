import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import ConfigError
from crossfeed.serving.rollout import FEWEST, PERSISTENCE, shared_chance, standard_noise


@settings(max_examples=20)
@given(short=st.integers(1, 20), more=st.integers(0, 20), seed=st.integers(0, 1000), samples=st.integers(FEWEST, 41))
def test_a_longer_plan_begins_with_the_draws_of_a_shorter_one(short: int, more: int, seed: int, samples: int) -> None:
    first = standard_noise(samples, short, 3, seed, 0.8)
    second = standard_noise(samples, short + more, 3, seed, 0.8)
    assert first.shape == (samples, short, 3)
    np.testing.assert_array_equal(first, second[:, :short])


def test_paths_come_in_mirrored_pairs() -> None:
    noise = standard_noise(64, 30, 2, 0, 0.8)
    np.testing.assert_array_equal(noise[:32], -noise[32:])
    np.testing.assert_allclose(noise.mean(0), 0.0, atol=1e-12)


@pytest.mark.parametrize("persistence", [0.0, 0.5, 0.9, PERSISTENCE])
def test_every_row_has_unit_spread_and_the_persistence_asked_for(persistence: float) -> None:
    noise = standard_noise(4000, 12, 2, 1, persistence)
    np.testing.assert_allclose(noise.std(0), 1.0, atol=0.06)
    following = (noise[:, 1:] * noise[:, :-1]).mean()
    assert following == pytest.approx(persistence, abs=0.03)


def test_seeds_differ() -> None:
    assert (standard_noise(20, 5, 1, 0, 0.8) != standard_noise(20, 5, 1, 1, 0.8)).all()


def test_too_few_samples_and_endless_persistence_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 20"):
        standard_noise(FEWEST - 1, 5, 1, 0, 0.8)
    with pytest.raises(ConfigError, match="0 to below 1"):
        standard_noise(FEWEST, 5, 1, 0, 1.0)


def test_plans_share_their_chance_where_their_commands_agree() -> None:
    first = np.array([[1000.0, 0.0], [1000.0, 500.0], [1000.0, 500.0], [1000.0, 500.0]])
    other = np.array([[1000.0, 0.0], [1000.0001, 500.0], [1000.0, 450.0], [1000.0, 0.0], [0.0, 0.0]])
    shared = shared_chance(first, other, np.array([1000.0, 1000.0]))
    assert shared[:2].tolist() == [1.0, 1.0]
    assert shared[2] == pytest.approx(np.exp(-0.99), abs=1e-3)
    assert shared[3] < 1e-4
    assert shared[4] == 0.0
    # A hundredth of the scale is what a small command is compared with.
    slow = shared_chance(np.array([[0.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([1000.0, 1000.0]))
    assert slow == pytest.approx(np.exp(-0.99))
    # Noise around a standstill is no change of plan.
    assert shared_chance(first * 0.0, first * 0.0 + 1e-3, np.array([1000.0, 1000.0])).tolist() == [1.0] * 4


def test_futures_fork_where_plans_fork_and_keep_their_spread() -> None:
    shared = np.repeat([1.0, 0.0], 10)
    here = standard_noise(4000, 20, 1, 0, 0.5)[..., 0]
    there = standard_noise(4000, 20, 1, 0, 0.5, shared)[..., 0]
    np.testing.assert_array_equal(here[:, :10], there[:, :10])
    together = [np.corrcoef(here[:, row], there[:, row])[0, 1] for row in (10, 19)]
    assert together == pytest.approx([0.25, 0.0], abs=0.06)
    np.testing.assert_allclose(there.std(0), 1.0, atol=0.06)


def test_the_chance_that_is_not_shared_is_that_of_the_seed_as_well() -> None:
    """Held still: the numbers behind a forecast are the same wherever and whenever its seed is named."""
    noise = standard_noise(20, 3, 1, 7, PERSISTENCE, np.array([1.0, 0.6, 0.0]))
    np.testing.assert_allclose(noise[0, :, 0], [0.00123015335748, -0.338033892703, -0.826183842904], rtol=1e-9)
    np.testing.assert_allclose(noise[13, :, 0], [0.890591838757, 0.931567869807, 0.849450087558], rtol=1e-9)
