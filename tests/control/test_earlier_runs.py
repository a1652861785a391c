"""How single readings scatter about the load of their second."""

import numpy as np
import pytest

from crossfeed.control.earlier_runs import Scatter, smoothed


def test_momentary_readings_hid_that_a_finishing_cut_is_light():
    """One reading a second scattered by a fifth, so that its neighbourhood's highest left no room below any limit."""
    draw, cutting = np.random.default_rng(3), np.ones(120, dtype=bool)
    true = 1.0 + 0.1 * np.sin(np.arange(120) / 9.0)
    read = true + 0.2 * draw.standard_normal(120)
    scatter = Scatter.of(read, cutting)
    assert scatter.spread == pytest.approx(0.2, rel=0.35)
    assert np.std(smoothed(read, cutting, scatter) - true) < 0.75 * np.std(read - true)


def test_loads_that_wander_are_no_scatter():
    wander = np.cumsum(np.random.default_rng(4).standard_normal(200)) * 0.02 + 1.0
    assert Scatter.of(wander, np.ones(200, dtype=bool)).share < 0.35


def test_an_entry_that_stands_out_is_not_calmed_away():
    load = 1.0 + 0.02 * np.random.default_rng(5).standard_normal(60)
    load[30] = 1.6
    cutting = np.ones(60, dtype=bool)
    assert smoothed(load, cutting, Scatter.of(load, cutting))[30] == 1.6


def test_too_few_rows_say_nothing_about_scatter():
    assert Scatter.of(np.arange(6.0), np.ones(6, dtype=bool)) == Scatter()
    assert smoothed(np.array([2.0]), np.array([True]), Scatter(1.0, 1.0)).tolist() == [2.0]


def test_eight_pairs_two_rows_apart_are_enough():
    """Loads that climb by 1, 3, 1, 3 and so on: 1 or 9 squared from row to row, 16 from every row to the next but one.

    The middle of five ones and four nines is 1; the scatter would be 2 * 1 - 16, so that there is none. With one row
    less, seven pairs say nothing about rows two apart: all of the middle of four ones and four nines is scatter.
    """
    climbing = np.concatenate(([0.0], np.cumsum([1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0])))
    assert Scatter.of(climbing, np.ones(10, dtype=bool)) == Scatter(0.0, 0.0)
    fewer = Scatter.of(climbing[:9], np.ones(9, dtype=bool))
    assert fewer.share == 1.0
    assert fewer.spread == pytest.approx(np.sqrt(2.0 * 5.0 / (2.0 * 0.4549)))
    assert Scatter.of(climbing[:8], np.ones(8, dtype=bool)) == Scatter()


def test_a_reading_that_is_all_scatter_is_the_mean_of_its_neighbourhood():
    cutting = np.ones(4, dtype=bool)
    assert smoothed(np.array([1.0, 2.0, 6.0, 4.0]), cutting, Scatter(10.0, 1.0)) == pytest.approx([1.0, 3.0, 4.0, 4.0])
    assert smoothed(np.array([1.0, 2.0, 6.0, 4.0]), cutting, Scatter(10.0, 0.5)) == pytest.approx([1.0, 2.5, 5.0, 4.0])


def test_readings_that_jump_to_and_fro_are_scatter_alone():
    """Neighbours differ by twice the jump, every second reading not at all; there is no more than all of it."""
    jumping = np.where(np.arange(60) % 2, 1.5, 0.5)
    found = Scatter.of(jumping, np.ones(60, dtype=bool))
    assert found.share == 1.0
    assert found.spread == pytest.approx(np.sqrt(1.0 / 0.4549))
    assert Scatter.of(np.ones(60), np.ones(60, dtype=bool)) == Scatter()
    both = Scatter.of_runs([jumping, np.ones(60)], np.ones(60, dtype=bool))
    assert (both.spread, both.share) == pytest.approx((0.5 * found.spread, 0.5))
    assert Scatter.of_runs([], np.ones(60, dtype=bool)) == Scatter()


def test_how_loads_scatter_does_not_depend_on_the_size_of_a_load():
    load, cutting = 1.0 + 0.2 * np.random.default_rng(6).standard_normal(60), np.ones(60, dtype=bool)
    large, small = Scatter.of(load, cutting), Scatter.of(1e-3 * load, cutting)
    assert large.share > 0.5
    assert (small.spread, small.share) == pytest.approx((1e-3 * large.spread, large.share))


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_run_of_a_row_or_two_says_nothing_about_scatter(rows):
    assert Scatter.of(np.ones(rows), np.ones(rows, dtype=bool)) == Scatter()
