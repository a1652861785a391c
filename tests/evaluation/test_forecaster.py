"""The floors: what they say, the spread they learn from train windows, and what they refuse."""

import numpy as np
import pytest
import torch

from crossfeed.evaluation.forecaster import SMALLEST_SPREAD, naive_baselines, spread_out
from crossfeed.evaluation.metrics import score_windows
from tests.evaluation.small_machine import HORIZONS, evaluation_set, normaliser_of, small_table, window_set


def test_persistence_spread_is_the_train_error_per_horizon_and_channel() -> None:
    table = small_table()
    windows = window_set(table, normaliser_of(table))
    persistence, drift = naive_baselines(HORIZONS)
    persistence.fit(windows, windows, 0)
    batch = windows.batch(torch.arange(len(windows)))
    forecast = persistence.predict(batch)
    expected = (batch.x_BKC[:, -1:] - batch.future_x_BHC).square().mean(0).sqrt()
    torch.testing.assert_close(forecast.scale[0].float(), expected)
    assert (forecast.scale.diff(dim=1)[:, :, 0] > 0).all(), "errors grow with the horizon"
    drift.fit(windows, windows, 0)
    assert not torch.equal(drift.predict(batch).mean, forecast.mean)


def test_a_constant_and_an_unseen_channel_get_a_usable_spread() -> None:
    table = small_table()
    table.sensors[:, 1] = 3.0
    windows = window_set(table, normaliser_of(table), hidden=("temperature",))
    persistence, _ = naive_baselines(HORIZONS)
    persistence.fit(windows, windows, 0)
    scale_C = persistence.predict(windows.batch(torch.arange(1))).scale[0, 0]
    assert scale_C[1] == SMALLEST_SPREAD
    assert scale_C[2] == 1.0


def test_an_unfitted_floor_is_a_point_without_intervals() -> None:
    data = evaluation_set()
    metrics = score_windows(naive_baselines(HORIZONS)[0], data).metrics()
    assert metrics["nll"] is None
    assert metrics["coverage90"] is None
    assert metrics["crps"] == pytest.approx(metrics["mae"])


@pytest.mark.parametrize("total", [1, 7, 100, 101, 5000])
def test_spread_out_covers_the_set_evenly_without_repeats(total: int) -> None:
    chosen = spread_out(total, 100).numpy()
    assert len(np.unique(chosen)) == min(total, 100)
    assert chosen[0] == 0
    assert chosen[-1] == total - 1
    assert np.ptp(np.diff(chosen)) <= 1 if total > 1 else True
