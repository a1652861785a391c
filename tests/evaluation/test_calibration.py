"""The shape of a PIT histogram in words."""

import numpy as np
import pytest

from crossfeed.evaluation.calibration import reading
from crossfeed.evaluation.metrics import PIT_BINS


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
