"""How runs of one program repeat: margins that runs of other height, light cuts and scattered readings cannot fool."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.control.readings import Scatter, calmed
from crossfeed.control.repeat import Repeat


def scored(scores, scatter=0.0, like=()):
    repeat = Repeat(np.array(like, dtype=float))
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


def test_momentary_readings_hid_that_a_finishing_cut_is_light():
    """One reading a second scattered by a fifth, so that its neighbourhood's highest left no room below any limit."""
    draw, cutting = np.random.default_rng(3), np.ones(120, dtype=bool)
    true = 1.0 + 0.1 * np.sin(np.arange(120) / 9.0)
    read = true + 0.2 * draw.standard_normal(120)
    scatter = Scatter.of(read, cutting)
    assert scatter.spread == pytest.approx(0.2, rel=0.35)
    assert np.std(calmed(read, cutting, scatter) - true) < 0.75 * np.std(read - true)


def test_loads_that_wander_are_no_scatter():
    wander = np.cumsum(np.random.default_rng(4).standard_normal(200)) * 0.02 + 1.0
    assert Scatter.of(wander, np.ones(200, dtype=bool)).share < 0.35


def test_an_entry_that_stands_out_is_not_calmed_away():
    load = 1.0 + 0.02 * np.random.default_rng(5).standard_normal(60)
    load[30] = 1.6
    cutting = np.ones(60, dtype=bool)
    assert calmed(load, cutting, Scatter.of(load, cutting))[30] == 1.6


def test_too_few_rows_say_nothing_about_scatter():
    assert Scatter.of(np.arange(6.0), np.ones(6, dtype=bool)) == Scatter()
    assert calmed(np.array([2.0]), np.array([True]), Scatter(1.0, 1.0)).tolist() == [2.0]


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


def test_a_reading_that_is_all_scatter_is_the_mean_of_its_neighbourhood():
    cutting = np.ones(4, dtype=bool)
    assert calmed(np.array([1.0, 2.0, 6.0, 4.0]), cutting, Scatter(10.0, 1.0)) == pytest.approx([1.0, 3.0, 4.0, 4.0])
    assert calmed(np.array([1.0, 2.0, 6.0, 4.0]), cutting, Scatter(10.0, 0.5)) == pytest.approx([1.0, 2.5, 5.0, 4.0])
