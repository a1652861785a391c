"""Exact tests against scipy, their floors, and the promise that no unreachable threshold is printed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from crossfeed.errors import ConfigError
from crossfeed.evaluation import statistics


@pytest.mark.parametrize(("units", "floor"), [(3, 0.25), (5, 0.0625), (7, 0.015625)])
def test_the_exact_floors(units: int, floor: float) -> None:
    unanimous = -np.linspace(0.5, 1.5, units)
    assert statistics.sign_flip(unanimous) == floor == statistics.sign_flip_floor(units)


@pytest.mark.parametrize(("units", "floor"), [(0, 1.0), (1, 1.0), (2, 0.5), (20, 2.0**-19)])
def test_the_floor_of_few_and_of_many_runs(units: int, floor: float) -> None:
    assert statistics.sign_flip_floor(units) == floor
    assert statistics.sign_flip(np.ones(units)) == floor


def test_random_flips_never_give_less_than_one_in_all_that_were_drawn() -> None:
    assert statistics.sign_flip(np.ones(62)) == 1.0 / (statistics.MONTE_CARLO_FLIPS + 1)


@settings(max_examples=30)
@given(st.lists(st.integers(-6, 6), min_size=2, max_size=9))
def test_sign_flip_counts_ties_like_a_permutation_test_in_whole_numbers(values: list[int]) -> None:
    differences = np.array(values)
    signs = 1 - 2 * ((np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1)
    expected = np.mean(np.abs(signs @ differences) >= abs(differences.sum()))
    assert statistics.sign_flip(differences * 0.1) == expected


def test_sign_flip_agrees_with_scipy() -> None:
    differences = np.random.default_rng(3).normal(0.4, 1.0, size=9)
    theirs = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert statistics.sign_flip(differences) == pytest.approx(theirs.pvalue)


def test_many_runs_are_flipped_at_random_and_never_give_zero() -> None:
    generator = np.random.default_rng(4)
    weak = generator.normal(0.25, 1.0, size=62)
    assert statistics.sign_flip(weak) == pytest.approx(stats.ttest_1samp(weak, 0.0).pvalue, abs=0.01)
    assert statistics.sign_flip(np.ones(62)) > 0.0


def test_holm_matches_the_textbook() -> None:
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([]) == []


def test_the_bootstrap_resamples_runs_not_windows() -> None:
    generator = np.random.default_rng(0)
    run_means = generator.normal(0.0, 1.0, size=30)
    few, many = ((np.stack([run_means * count, np.full(30, count)], 1)) for count in (10.0, 10_000.0))

    def mean(sums: np.ndarray) -> np.ndarray:
        return sums[:, 0] / sums[:, 1]

    narrow, wide = statistics.bootstrap(many, mean), statistics.bootstrap(few, mean)
    assert (narrow.low, narrow.high) == pytest.approx((wide.low, wide.high))
    theirs = stats.bootstrap((run_means,), np.mean, method="percentile", n_resamples=9999, rng=1).confidence_interval
    assert (narrow.low, narrow.high) == pytest.approx((theirs.low, theirs.high), abs=0.05)
    assert narrow.estimate == pytest.approx(run_means.mean())


def test_two_runs_give_no_interval_and_none_is_refused() -> None:
    two = statistics.bootstrap(np.ones((2, 2)), lambda sums: sums[:, 0] / sums[:, 1])
    assert (two.low, two.high, two.units) == (None, None, 2)
    with pytest.raises(ConfigError, match="without a single run"):
        statistics.bootstrap(np.empty((0, 2)), lambda sums: sums[:, 0])


def test_three_runs_cannot_be_declared_significant() -> None:
    better, worse = np.array([0.1, 0.2, 0.3]), np.array([1.1, 1.3, 1.5])
    (result,) = statistics.paired_tests({"model": better, "persistence": worse}, "model")
    assert result.p_sign_flip == 0.25
    assert result.wins == 3
    assert "cannot be decided" in result.verdict
    assert "0.25" in result.verdict


def test_the_correction_counts_towards_what_can_be_reached() -> None:
    generator = np.random.default_rng(1)
    runs = {"model": generator.normal(0, 0.1, 7)} | {f"other{i}": generator.normal(5, 0.1, 7) for i in range(4)}
    results = statistics.paired_tests(runs, "model")
    assert {result.p_holm for result in results} == {0.0625}
    assert all("cannot be decided" in result.verdict for result in results)
    single = statistics.paired_tests({name: runs[name] for name in ("model", "other0")}, "model")
    assert single[0].verdict == "differs (p = 0.0156)"


def test_runs_missing_on_one_side_leave_the_comparison() -> None:
    (result,) = statistics.paired_tests({"a": np.array([1.0, np.nan, 3.0]), "b": np.array([2.0, 2.0, 2.0])}, "a")
    assert result.units == 2
    assert result.mean_difference == 0.0


def test_a_run_is_won_by_any_margin_and_a_tie_by_nobody() -> None:
    (result,) = statistics.paired_tests(
        {"a": np.array([1.0, 2.0, 3.0, 4.0]), "b": np.array([9.0, 2.0, 2.999, 4.001])}, "a"
    )
    assert (result.wins, result.units) == (2, 4)


def test_runs_that_are_not_in_common_prove_nothing() -> None:
    (result,) = statistics.paired_tests({"a": np.array([1.0, np.nan]), "b": np.array([np.nan, 2.0])}, "a")
    assert (result.units, result.p_sign_flip) == (0, 1.0)


def test_the_power_table_names_what_cannot_be_reached_and_matches_the_t_test() -> None:
    table = {(row.units, row.effect): row for row in statistics.power_table(units=(3, 10, 12, 13), effects=(0.0, 1.0))}
    assert not table[3, 1.0].reachable
    assert table[3, 1.0].power == 0.0
    assert table[10, 0.0].power <= 0.065
    assert table[12, 1.0].power == pytest.approx(table[13, 1.0].power, abs=0.07)
    assert table[10, 1.0].power > 0.7
    (of_twenty,) = statistics.power_table(units=(20,), effects=(0.5,))
    assert of_twenty.power == pytest.approx(0.5645, abs=1e-4), "what tables of the paired t test say"
    for without_effect in statistics.power_table(units=(13, 20, 50), effects=(0.0,)):
        assert without_effect.power == pytest.approx(0.05), "half of the threshold at either end"
