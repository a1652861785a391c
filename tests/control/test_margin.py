"""Margins from rows that came true: as often passed as they say, and none where too little is known."""

import math
from functools import cache

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.control.margin import FEWEST, Margin


@cache
def many_logs(seed):
    """Margins of many logs, each with the score that comes next."""
    scores = np.random.default_rng(seed).standard_t(2, (400, 151))
    return [(Margin(row[:-1]), row[-1]) for row in scores]


@given(st.floats(0.01, 0.4), st.integers(0, 5))
def test_the_next_score_passes_the_margin_as_often_as_the_risk_says(risk, seed):
    """Over many logs the share of passed margins is at most the risk, whatever the scores are distributed like."""
    passed = [following > margin.within(risk) for margin, following in many_logs(seed)]
    assert np.mean(passed) <= risk + 3.0 * math.sqrt(risk / 400) + 0.01


def test_too_few_rows_say_nothing():
    assert Margin(np.zeros(FEWEST - 1)).within(0.01) == math.inf
    assert Margin(np.zeros(FEWEST)).within(0.01) == 0.0


def test_the_margin_is_the_score_with_the_rank_that_the_risk_asks_for():
    margin = Margin(np.random.default_rng(0).permutation(99) + 1.0)
    assert [margin.within(risk) for risk in (0.01, 0.1, 0.25, 0.5)] == [99.0, 90.0, 75.0, 50.0]


def test_with_few_rows_it_is_the_highest_that_was_seen():
    assert Margin(np.arange(30.0)).within(0.01) == 29.0


def test_rows_that_are_no_numbers_do_not_count():
    margin = Margin(np.array([np.nan, np.inf, 1.0]))
    margin.add(math.nan)
    assert len(margin) == 1
