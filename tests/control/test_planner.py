"""The planner finds what is known to be best, stays inside its bounds, and stops when time is up."""

import numpy as np
import pytest

from crossfeed.control.planner import SearchConfig, search

LOW, HIGH = np.array([0.5, 0.9]), np.array([1.2, 1.1])


def test_finds_the_bottom_of_a_bowl():
    aim = np.array([[0.8, 1.0], [1.1, 0.95], [0.6, 1.05]])
    found = search(
        lambda knots: np.square(knots - aim).sum((1, 2)), LOW, HIGH, np.ones((3, 2)),
        SearchConfig(iterations=30, seconds=1e6), np.random.default_rng(0),
    )  # fmt: skip
    assert found.finished
    assert np.abs(found.knots_N2 - aim).max() < 0.08


def test_never_leaves_the_range_and_never_ends_worse_than_it_began():
    tried = []

    def judge(knots):
        tried.append(knots)
        return -knots.sum((1, 2))

    start = np.ones((4, 2))
    found = search(judge, LOW, HIGH, start, SearchConfig(), np.random.default_rng(1))
    everything = np.concatenate(tried)
    assert (everything >= LOW - 1e-12).all()
    assert (everything <= HIGH + 1e-12).all()
    assert found.cost <= -start.sum()


def test_out_of_time_is_the_best_so_far_and_marked():
    clock = iter([0.0, 5.0])
    found = search(
        lambda knots: knots.sum((1, 2)), LOW, HIGH, np.ones((2, 2)), SearchConfig(seconds=1.0),
        np.random.default_rng(0), lambda: next(clock),
    )  # fmt: skip
    assert not found.finished
    assert found.cost <= 4.0


def test_the_first_plans_lie_around_the_start_by_the_asked_part_of_each_range():
    """They were sown over the sum of both ends, so that most of them lay on the edges."""
    tried = []
    search(
        lambda knots: (tried.append(knots), knots.sum((1, 2)))[1], LOW, HIGH, np.ones((3, 2)),
        SearchConfig(spread=0.02, candidates=400, iterations=1), np.random.default_rng(2),
    )  # fmt: skip
    assert tried[0][:399].std((0, 1)) == pytest.approx(0.02 * (HIGH - LOW), rel=0.1)
