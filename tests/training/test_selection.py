"""Keeping the best epoch and giving up."""

import math

from hypothesis import given
from hypothesis import strategies as st

from crossfeed.training.checkpoint import Best


def follow(scores: list[float], patience: int) -> Best:
    best = Best(patience)
    for epoch, score in enumerate(scores):
        best = best.update(epoch, score)
        if best.exhausted:
            break
    return best


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_without_stopping_the_first_minimum_wins(scores: list[float]) -> None:
    best = follow(scores, patience=len(scores) + 1)
    assert best.epoch == scores.index(min(scores))
    assert best.score == min(scores)


def test_stops_after_patience_epochs_without_a_better_one() -> None:
    best = follow([3.0, 2.0, 2.0, 2.5, 2.1, 1.0], patience=3)
    assert best.exhausted
    assert (best.epoch, best.score, best.waited) == (1, 2.0, 3)


def test_a_score_that_is_no_number_never_wins() -> None:
    best = follow([math.nan, 5.0, math.nan], patience=5)
    assert best.epoch == 1
