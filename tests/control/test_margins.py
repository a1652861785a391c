"""Margins: as often passed as they say, not fooled by light cuts and scattered readings, chances their other side."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.control.load_calibration import FEWEST, conformal_margin, student_tail
from crossfeed.control.load_forecast import StudentTail


@cache
def many_logs(seed):
    """Scores of many logs, each with the one that comes next."""
    scores = np.random.default_rng(seed).standard_t(2, (400, 151))
    return [(row[:-1], row[-1]) for row in scores]


@given(st.floats(0.01, 0.4), st.integers(0, 5))
def test_the_next_score_passes_the_margin_as_often_as_the_risk_says(risk, seed):
    """Over many logs the share of passed margins is at most the risk, whatever the scores are distributed like."""
    passed = [following > conformal_margin(known, risk) for known, following in many_logs(seed)]
    assert np.mean(passed) <= risk + 3.0 * math.sqrt(risk / 400) + 0.01


def test_too_few_rows_say_nothing():
    assert conformal_margin(np.zeros(FEWEST - 1), 0.01) == math.inf
    assert conformal_margin(np.zeros(FEWEST), 0.01) == 0.0


def test_the_margin_is_the_score_with_the_rank_that_the_risk_asks_for():
    scores = np.random.default_rng(0).permutation(99) + 1.0
    assert [conformal_margin(scores, risk) for risk in (0.01, 0.1, 0.25, 0.5)] == [99.0, 90.0, 75.0, 50.0]


def test_with_few_rows_it_is_the_highest_that_was_seen():
    assert conformal_margin(np.arange(30.0), 0.01) == 29.0


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


@given(st.lists(st.floats(-0.3, 0.3), min_size=0, max_size=40), st.floats(0.0005, 0.2), st.floats(1.1, 5.0))
def test_less_risk_never_means_less_margin(scores, risk, times):
    tail = student_tail(np.array(scores))
    assert tail.within(risk / times) >= tail.within(risk)


def test_rows_that_hold_half_a_cut_do_not_widen_the_margin():
    """Entries lie far below the earlier runs' neighbourhood; they say nothing about how high loads come."""
    steady = 0.1 * np.random.default_rng(1).standard_normal(60)
    entries = np.concatenate([steady, np.full(20, -0.8)])
    assert student_tail(entries).within(0.01) < student_tail(steady).within(0.01) + 0.02


def test_runs_that_differ_more_have_a_wider_margin():
    usual = np.random.default_rng(6).standard_normal(30)
    assert student_tail(0.2 * usual).within(0.01) > student_tail(0.06 * usual).within(0.01) + 0.05


def test_a_tail_is_wider_by_what_a_next_row_adds():
    """What lies above the middle says how high scores come, 6 % at least; the next row is unsure too."""
    tail, alone = student_tail(np.array([0.0, 0.0, 0.0, 0.3, 0.3, -0.3])), student_tail(np.empty(0))
    assert (tail.middle, tail.freedom, alone.middle) == (0.0, 9.0, 0.0)
    assert tail.spread == pytest.approx(0.3 * 1.1**0.5)
    assert alone.spread == pytest.approx(0.06 * 1.1**0.5)


def test_half_of_the_scores_lie_below_the_middle_which_is_never_above_the_load():
    assert student_tail(np.array([-0.3, -0.2, -0.2, -0.1])).middle == pytest.approx(-0.2)
    assert student_tail(np.array([0.1, 0.2, 0.3])).middle == 0.0
