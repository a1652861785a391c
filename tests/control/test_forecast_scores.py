"""Scores of a log: of its latest windows, each of which is forecast from the rows before it alone."""

import numpy as np
import torch

from crossfeed.control.load_calibration import forecast_scores
from crossfeed.control.load_forecast import CAUTIOUS, physical
from crossfeed.control.timeline import Timeline
from crossfeed.serving.rollout import mean_rollout
from tests.control.conftest import CONTEXT, HORIZONS, logged, small_model

TABLE, NAME = logged(), "spindle_torque"
MODEL, AHEAD = small_model(logged()), HORIZONS[-1]


def highest_around(values):
    return np.array([values[max(place - 1, 0) : place + 2].max() for place in range(len(values))])


def scored_one_by_one(sensors, commands):
    """The same scores, one window after the other."""
    timeline, column = Timeline.of_log(MODEL.schema, commands), MODEL.schema.sensor_names.index(NAME)
    starts = [at for at in range(CONTEXT, len(sensors) - AHEAD + 1, 2) if timeline.cutting[at : at + AHEAD].any()]
    x = torch.from_numpy(MODEL.normaliser.transform_sensors(sensors).astype(np.float32))
    a = torch.from_numpy(MODEL.normaliser.transform_commands(commands).astype(np.float32))
    same, others = [], []
    for at in starts[-96:]:
        said = mean_rollout(
            MODEL, x[None, at - CONTEXT : at], a[None, at - CONTEXT : at], a[None, at : at + AHEAD]
        ).distribution
        middle, high = (
            highest_around(physical(MODEL, NAME, said[0, :, column].quantile(level))) for level in (0.5, CAUTIOUS)
        )
        score = (sensors[at : at + AHEAD, column] - middle) / (high - middle)
        under_way = timeline.rows(at, at + AHEAD).under_way(commands[at - 1])
        cutting = timeline.cutting[at : at + AHEAD]
        same += score[cutting & under_way].tolist()
        others += score[cutting & ~under_way].tolist()
    return same, others


def test_scores_are_those_of_every_window_by_itself():
    found = forecast_scores(MODEL, [NAME], TABLE.sensors, TABLE.commands)[NAME]
    same, others = scored_one_by_one(TABLE.sensors, TABLE.commands)
    assert len(same) > 50
    assert len(others) > 50
    np.testing.assert_allclose(found.under_way, same, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.to_come, others, rtol=1e-3, atol=1e-3)


def test_a_log_without_a_cut_has_no_scores():
    still = np.zeros_like(TABLE.commands)
    found = forecast_scores(MODEL, [NAME], TABLE.sensors, still)[NAME]
    assert len(found.under_way) == len(found.to_come) == 0


def test_rows_of_a_cut_that_nobody_measured_do_not_count():
    sensors = TABLE.sensors.copy()
    sensors[200:, MODEL.schema.sensor_names.index(NAME)] = np.nan
    found = forecast_scores(MODEL, [NAME], sensors, TABLE.commands)[NAME]
    whole = forecast_scores(MODEL, [NAME], TABLE.sensors, TABLE.commands)[NAME]
    assert 0 < len(found.under_way) < len(whole.under_way)
    assert np.isfinite(found.under_way).all()
