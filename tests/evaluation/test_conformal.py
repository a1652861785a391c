"""Conformal coverage on exchangeable data, recovery after a level shift, and no look into the future."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from crossfeed.errors import TableError
from crossfeed.evaluation.conformal import (
    ForecastRecorder,
    ForecastTrace,
    adaptive_widths,
    coverage,
    split_widths,
)
from crossfeed.evaluation.forecaster import Forecaster, naive_baselines
from crossfeed.evaluation.metrics import LEVELS, EvaluationSet, score_windows
from crossfeed.model.distribution import Gaussian
from crossfeed.windows.windows import WindowBatch
from tests.evaluation.small_machine import (
    HORIZONS,
    SCHEMA,
    evaluation_set,
    normaliser_of,
    small_table,
    window_set,
)


class Overconfident(Forecaster):
    """Predicts exchangeable heavy-tailed noise with far too small a spread."""

    name, uses_future_commands = "overconfident", False

    def predict(self, batch: WindowBatch) -> Gaussian:
        mean = torch.zeros_like(batch.future_x_BHC)
        return Gaussian(mean, torch.full_like(mean, 0.1))


def white_noise(runs: int = 8, rows: int = 400) -> EvaluationSet:
    table = small_table(runs, rows)
    generator = np.random.default_rng(5)
    table.sensors[:] = generator.standard_t(3, size=table.sensors.shape) * [1.0, 5.0, 0.1]
    normaliser = normaliser_of(table)
    return EvaluationSet(window_set(table, normaliser), SCHEMA, normaliser, normaliser)


def test_split_conformal_covers_exchangeable_data_within_binomial_error() -> None:
    data = white_noise()
    half = len(data.windows) // 2
    record = ForecastRecorder(data.windows)
    assert score_windows(Overconfident(), data, on_forecast=[record]).metrics()["coverage90"] < 0.5
    _, stream = record.trace()
    first = np.arange(len(data.windows)) < half
    width_LHC, borrowed = split_widths(stream.scores[first])
    others = stream.select(~first)
    for level, share in zip(LEVELS, coverage(others, width_LHC[None]), strict=True):
        # Both halves are samples: their binomial errors add. Channels and horizons of one window count once.
        assert share == pytest.approx(level, abs=4.0 * math.sqrt(2.0 * level * (1.0 - level) / half))
    assert not borrowed.any()


def test_the_promise_is_exact_over_many_small_calibration_sets() -> None:
    generator = np.random.default_rng(0)
    covered = []
    for _ in range(3000):
        scores = generator.exponential(size=(30, 1, 1))
        width, _ = split_widths(scores[:29], (0.9,))
        covered.append(scores[29, 0, 0] <= width[0, 0, 0])
    assert np.mean(covered) == pytest.approx(0.9, abs=4 * math.sqrt(0.09 / 3000))


def test_a_channel_seen_too_rarely_borrows_from_the_others() -> None:
    scores = np.random.default_rng(0).exponential(size=(60, 2, 3))
    scores[5:, :, 1] = np.nan
    _, borrowed = split_widths(scores)
    assert borrowed[:, 1].all()
    assert not borrowed[:, [0, 2]].any()


def test_too_few_observations_are_refused_with_the_number_needed() -> None:
    with pytest.raises(TableError, match=r"6 observed values are too few for 95% intervals\.\nExpected: at least 19"):
        split_widths(np.ones((2, 2, 3)))


def stream(scale_N: np.ndarray, shift_N: np.ndarray, seed: int = 0) -> ForecastTrace:
    count = len(scale_N)
    noise = np.random.default_rng(seed).normal(size=(count, 2, 3))
    x = shift_N[:, None, None] + scale_N[:, None, None] * noise
    return ForecastTrace(np.arange(count), np.zeros_like(x), np.ones_like(x), x, np.ones(x.shape, dtype=bool))


def test_adaptive_conformal_recovers_after_a_level_shift() -> None:
    count = 4000
    shifted = stream(np.ones(count), np.where(np.arange(count) < 2000, 0.0, 6.0))
    fixed = np.repeat(stats.norm.interval(0.9)[1], len(LEVELS))[None, :, None, None] * np.ones((count, 1, 2, 3))
    tracked = adaptive_widths(shifted, (1, 4))
    after = ForecastTrace(*(values[2200:] for values in vars(shifted).values()))
    assert coverage(after, fixed[2200:])[LEVELS.index(0.9)] < 0.01
    np.testing.assert_allclose(coverage(after, tracked[2200:]), LEVELS, atol=0.03)


def test_adaptive_conformal_follows_a_change_of_spread_and_keeps_the_long_run_share() -> None:
    count = 6000
    breathing = stream(np.where(np.arange(count) // 1000 % 2 == 0, 0.3, 3.0), np.zeros(count), seed=2)
    np.testing.assert_allclose(coverage(breathing, adaptive_widths(breathing, (1, 4))), LEVELS, atol=0.03)


def test_a_channel_that_wakes_up_after_exact_silence_is_covered_again() -> None:
    waking = stream(np.where(np.arange(3000) < 1500, 0.0, 1.0), np.zeros(3000))
    tracked = adaptive_widths(waking, (1, 4))
    after = ForecastTrace(*(values[1700:] for values in vars(waking).values()))
    np.testing.assert_allclose(coverage(after, tracked[1700:]), LEVELS, atol=0.04)


def test_one_spike_moves_the_recent_mean_by_ten_times_itself_at_most() -> None:
    count, rate, level = 440, 0.05, 0.9
    scores = np.full(count, 0.5)
    scores[10], scores[430] = 1e6, 2.0
    scores[15:430] = 0.0  # so long that a width ends at nothing, and that a whole deviation counts when one comes
    one = scores[:, None, None]
    spiked = ForecastTrace(np.arange(count), np.zeros_like(one), np.ones_like(one), one, np.ones(one.shape, dtype=bool))
    found = adaptive_widths(spiked, (1,), (level,), rate)[:, 0, 0, 0]
    multiple, recent, expected = stats.norm.interval(level)[1], 1.0, []
    for now in range(count):
        if now:
            score = scores[now - 1]
            multiple = max(0.0, multiple + rate * (level if score > expected[-1] else level - 1.0))
            recent += rate * (min(score, max(10.0 * recent, 1.0)) - recent)
        expected.append(multiple * recent)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert recent < 2.0, "a million must not stay"


def test_no_width_depends_on_what_is_observed_later() -> None:
    calm = stream(np.ones(300), np.zeros(300))
    now = 150
    changed = ForecastTrace(calm.clock_N, calm.centre_NHC, calm.spread_NHC, calm.x_NHC.copy(), calm.present_NHC)
    for position, horizon in enumerate((1, 4)):
        changed.x_NHC[now - horizon + 1 :, position] += 100.0
    before, after = adaptive_widths(calm, (1, 4)), adaptive_widths(changed, (1, 4))
    np.testing.assert_array_equal(before[: now + 1], after[: now + 1])
    assert (before[now + 1] != after[now + 1]).any()


def test_absent_values_leave_the_width_as_it_is() -> None:
    half_absent = stream(np.ones(200), np.zeros(200))
    half_absent.present_NHC[50:, :, 1] = False
    widths = adaptive_widths(half_absent, (1, 4))
    assert np.ptp(widths[60:, :, :, 1], axis=0).max() == 0.0
    assert np.ptp(widths[60:, :, :, 0], axis=0).min() > 0.0


def test_the_trace_is_in_time_order() -> None:
    data = evaluation_set()
    persistence, _ = naive_baselines(HORIZONS)
    persistence.fit(data.windows, data.windows, 0)
    shuffled = torch.randperm(len(data.windows), generator=torch.Generator().manual_seed(0))
    record = ForecastRecorder(data.windows)
    score_windows(persistence, data, shuffled, on_forecast=[record])
    np.testing.assert_array_equal(record.trace()[1].clock_N, data.windows.last_W)
