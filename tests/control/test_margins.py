"""Margins: as often passed as they say, not fooled by light cuts and scattered readings, chances their other side."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.control.margins import FEWEST, ConformalMargin, StudentMargin, StudentTail


@cache
def many_logs(seed):
    """Margins of many logs, each with the score that comes next."""
    scores = np.random.default_rng(seed).standard_t(2, (400, 151))
    return [(ConformalMargin(row[:-1]), row[-1]) for row in scores]


@given(st.floats(0.01, 0.4), st.integers(0, 5))
def test_the_next_score_passes_the_margin_as_often_as_the_risk_says(risk, seed):
    """Over many logs the share of passed margins is at most the risk, whatever the scores are distributed like."""
    passed = [following > margin.within(risk) for margin, following in many_logs(seed)]
    assert np.mean(passed) <= risk + 3.0 * math.sqrt(risk / 400) + 0.01


def test_too_few_rows_say_nothing():
    assert ConformalMargin(np.zeros(FEWEST - 1)).within(0.01) == math.inf
    assert ConformalMargin(np.zeros(FEWEST)).within(0.01) == 0.0


def test_the_margin_is_the_score_with_the_rank_that_the_risk_asks_for():
    margin = ConformalMargin(np.random.default_rng(0).permutation(99) + 1.0)
    assert [margin.within(risk) for risk in (0.01, 0.1, 0.25, 0.5)] == [99.0, 90.0, 75.0, 50.0]


def test_with_few_rows_it_is_the_highest_that_was_seen():
    assert ConformalMargin(np.arange(30.0)).within(0.01) == 29.0


def test_rows_that_are_no_numbers_do_not_count():
    margin = ConformalMargin(np.array([np.nan, np.inf, 1.0]))
    margin.add(math.nan)
    assert len(margin) == 1


@given(st.floats(-0.2, 0.2), st.floats(0.01, 0.5), st.floats(2.0, 200.0), st.floats(0.001, 0.5))
def test_what_is_passed_with_a_chance_is_what_is_kept_otherwise(middle, spread, freedom, risk):
    tail = StudentTail(middle, spread, freedom)
    assert tail.above(np.array([tail.within(risk)]))[0] == pytest.approx(risk, rel=1e-6)


def test_few_rows_make_wide_tails():
    assert (
        StudentTail(0.0, 0.1, 4.0).above(np.array([0.4]))[0]
        > 5.0 * StudentTail(0.0, 0.1, 60.0).above(np.array([0.4]))[0]
    )


def test_higher_scores_are_less_likely():
    chance = StudentTail(0.0, 0.1, 9.0).above(np.linspace(-1.0, 1.0, 50))
    assert (np.diff(chance) < 0.0).all()
    assert ((chance > 0.0) & (chance < 1.0)).all()


def scored(scores, scatter=0.0, like=()):
    repeat = StudentMargin(np.array(like, dtype=float))
    for score in scores:
        repeat.add(float(score), scatter)
    return repeat


def test_a_margin_of_few_rows_was_the_highest_of_them_and_the_next_ones_passed_it():
    """Of twenty rows the highest is passed by one of twenty: limits were passed right after the first twenty rows."""
    draw = np.random.default_rng(0)
    runs = 0.08 * draw.standard_normal((400, 21))
    passed = np.mean([row[-1] > scored(row[:-1]).within(0.001) for row in runs])
    assert np.mean(runs[:, -1] > runs[:, :-1].max(axis=1)) > 0.02
    assert passed <= 0.005


@given(st.lists(st.floats(-0.3, 0.3), min_size=0, max_size=40), st.floats(0.0005, 0.2), st.floats(1.1, 5.0))
def test_less_risk_never_means_less_margin(scores, risk, times):
    repeat = scored(scores)
    assert repeat.within(risk / times) >= repeat.within(risk)


def test_rows_that_hold_half_a_cut_do_not_widen_the_margin():
    """Entries lie far below the earlier runs' neighbourhood; they say nothing about how high loads come."""
    steady = 0.05 * np.random.default_rng(1).standard_normal(60)
    entries = np.concatenate([steady, np.full(20, -0.8)])
    assert scored(entries).within(0.01) < scored(steady).within(0.01) + 0.02


def test_a_run_that_comes_out_higher_raises_the_margin():
    usual = 0.06 * np.random.default_rng(6).standard_normal(30)
    assert scored(usual + 0.1).within(0.01) > scored(usual).within(0.01) + 0.05


def test_scattered_readings_are_not_taken_for_loads():
    readings = 0.2 * np.random.default_rng(2).standard_normal(80)
    assert scored(readings, scatter=0.19).within(0.01) < 0.6 * scored(readings).within(0.01)


def test_numbers_that_are_none_do_not_count():
    repeat = scored([np.nan, np.inf, 0.1], like=[np.nan, 0.0])
    assert len(repeat) == 2


def test_what_is_believed_counts_for_ten_rows():
    repeat = scored([0.0, 0.1, 0.1, 0.1, 0.2], like=[-0.3, -0.2, -0.2, -0.1])
    assert repeat.middle == pytest.approx((10.0 * -0.2 + 5 * 0.1) / 15.0)


def test_a_margin_is_wider_by_what_a_next_row_adds():
    """Half of what is believed, and the rows above the middle, say how high scores come; the next row is unsure too."""
    repeat = scored([0.0, 0.0, 0.0, 0.3, 0.3, -0.3], like=[])
    above, rows = 0.3, 16.0
    square = (5.0 * 0.06**2 + 2 * above**2) / (5.0 + 2)
    assert repeat.middle == 0.0
    assert (repeat.tail.middle, repeat.tail.freedom) == (0.0, rows - 1.0)
    assert repeat.tail.spread == pytest.approx((square * (1.0 + 1.0 / rows)) ** 0.5)


def test_a_score_without_a_word_of_its_scatter_scatters_by_nothing():
    silent, said = StudentMargin(np.array([])), scored([0.3, 0.4, 0.0], scatter=0.0)
    for score in (0.3, 0.4, 0.0):
        silent.add(score)
    assert silent.within(0.01) == said.within(0.01)
