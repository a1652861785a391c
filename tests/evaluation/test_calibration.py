"""How honest intervals are, in numbers, and the shape of a PIT histogram in words."""

import numpy as np
import pytest
import torch
from scipy import stats

from crossfeed.evaluation.channels import calibration, reading
from crossfeed.evaluation.metrics import PIT_BINS, Scores
from crossfeed.model.distribution import Gaussian


def pit(first: float = 0.05, last: float = 0.05, middle: float = 0.5) -> np.ndarray:
    """Shares at both ends and in the middle half; what is left is spread over the rest."""
    shares = np.full(PIT_BINS, (1.0 - first - last - middle) / (PIT_BINS // 2 - 2))
    shares[0], shares[-1] = first, last
    shares[PIT_BINS // 4 : -PIT_BINS // 4] = middle / (PIT_BINS // 2)
    return shares


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        (pit(), "no large deviation"),
        (pit(first=0.2, last=0.2, middle=0.3), "too sure"),
        (pit(first=0.01, last=0.01, middle=0.8), "too cautious"),
        (pit(first=0.25, last=0.02, middle=0.4), "biased: observations fall too often below"),
        (pit(first=0.02, last=0.25, middle=0.4), "biased: observations fall too often above"),
    ],
)
def test_each_shape_has_its_words(shares: np.ndarray, words: str) -> None:
    assert shares.sum() == pytest.approx(1.0)
    assert words in reading(shares)


def test_intervals_that_hold_too_little_were_called_too_wide() -> None:
    """Four in five observations inside 90 % intervals, most of them in the very middle."""
    assert reading(pit(first=0.09, last=0.08, middle=0.65)).startswith("uneven")


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        (pit(first=0.13, last=0.05, middle=0.4), "biased: observations fall too often below"),
        (pit(first=0.12, last=0.12, middle=0.4), "too sure"),
        (pit(first=0.06, last=0.06, middle=0.5), "no large deviation"),
        (pit(first=0.05, last=0.05, middle=0.59), "no large deviation"),
        (pit(first=0.05, last=0.05, middle=0.62), "too cautious"),
        (pit(first=0.08, last=0.06, middle=0.62), "too cautious"),
    ],
)
def test_words_begin_where_three_in_twenty_lie_in_a_tenth_and_six_in_ten_in_a_half(
    shares: np.ndarray, words: str
) -> None:
    assert reading(shares).startswith(words)


def scores_of(spread: float) -> Scores:
    """Standard normal observations, forecast with this spread."""
    x = torch.special.ndtri((torch.arange(4000, dtype=torch.float64) + 0.5) / 4000)[:, None, None]
    scores = Scores("model", ("a",), ("steady",), (1,), ("x",))
    said = Gaussian(torch.zeros_like(x), torch.full_like(x, spread))
    whole = torch.zeros(4000, dtype=torch.long)
    scores.add(said, x, torch.ones_like(x, dtype=torch.bool), torch.zeros_like(x), whole, whole[:, None])
    return scores


def test_right_intervals_deviate_by_nothing_and_half_as_wide_ones_by_what_they_miss() -> None:
    right, narrow = calibration(scores_of(1.0)), calibration(scores_of(0.5))
    assert right.penalty90 == pytest.approx(0.0, abs=1e-3)
    assert right.pit == pytest.approx([1.0 / PIT_BINS] * PIT_BINS, abs=1e-3)
    assert right.pit_deviation == pytest.approx(0.0, abs=0.01)
    inside = stats.norm.cdf(0.5 * stats.norm.ppf(0.95)) - stats.norm.cdf(-0.5 * stats.norm.ppf(0.95))
    assert narrow.coverage["0.9"] == pytest.approx(inside, abs=1e-3)
    assert narrow.penalty90 == pytest.approx(0.9 - inside, abs=1e-3)
    assert narrow.width90 == pytest.approx(stats.norm.ppf(0.95))
    edges = stats.norm.cdf(0.5 * stats.norm.ppf(np.linspace(0.0, 1.0, PIT_BINS + 1)))
    assert narrow.pit_deviation == pytest.approx(np.abs(np.diff(edges) * PIT_BINS - 1.0).mean(), abs=0.01)
    assert narrow.reading.startswith("too sure")
