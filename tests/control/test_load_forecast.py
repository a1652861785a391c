"""What lies ahead as a model forecasts it: quantiles, samples and doubt are those of one pass along the plan."""

import numpy as np
import pytest
import torch

from crossfeed.control.load_forecast import CAUTIOUS, SAMPLES, LoadForecast, LoadForecaster, physical
from crossfeed.control.mean_rollout import mean_rollout
from crossfeed.control.timeline import Timeline
from crossfeed.errors import TableError
from tests.control.conftest import CONTEXT, HORIZONS, logged, small_model

ROWS, ABSENT = 40, "x_torque"


@pytest.fixture(scope="module")
def asked() -> tuple:
    """A forecaster that has read some rows, and what one pass along the next commands says."""
    table, model = logged(), small_model(logged())
    sensors = table.sensors[:ROWS].copy()
    sensors[:, table.schema.sensor_names.index(ABSENT)] = np.nan
    planned = table.commands[ROWS : ROWS + HORIZONS[-1]]
    x, a = model.normaliser.transform_sensors(sensors), model.normaliser.transform_commands(table.commands)
    parts = (x[ROWS - CONTEXT :], a[ROWS - CONTEXT : ROWS], a[ROWS : ROWS + HORIZONS[-1]])
    tensors = [torch.from_numpy(np.asarray(part, dtype=np.float32))[None] for part in parts]
    forecaster = LoadForecaster(model, sensors, table.commands[:ROWS])
    return forecaster, planned, mean_rollout(model, *tensors, members=True)


def test_expected_loads_and_doubt_are_those_of_the_pass(asked: tuple) -> None:
    forecaster, planned, rolled = asked
    mean_TC, doubt_T = forecaster.expected(planned)
    z = rolled.distribution.mean[0].double().numpy()
    normaliser = forecaster.model.normaliser
    assert mean_TC == pytest.approx(z * normaliser.sensor_scale + normaliser.sensor_location, rel=1e-4, abs=1e-5)
    shown = [name != ABSENT for name in forecaster.model.schema.sensor_names]
    apart = rolled.apart[0].double().numpy()[:, shown].mean(axis=1)
    assert doubt_T == pytest.approx(apart / 0.05, rel=1e-3)
    forecaster.model.disagreement_threshold.fill_(0.1)
    assert forecaster.expected(planned)[1] == pytest.approx(apart / 0.1, rel=1e-3)
    forecaster.model.disagreement_threshold.fill_(0.0)


def test_samples_and_quantiles_are_those_of_the_pass(asked: tuple) -> None:
    forecaster, planned, rolled = asked
    assert forecaster.reach == HORIZONS[-1]
    ahead = forecaster.ahead(Timeline.of_log(forecaster.model.schema, np.tile(planned, (2, 1))), ["spindle_torque"])
    assert len(ahead) == HORIZONS[-1]
    assert next(iter(ahead.paths)) == "spindle_torque"
    assert "spindle_power" in ahead.paths
    assert (ahead.doubt_T == 0.0).all()
    for name, path_ST in ahead.paths.items():
        column = rolled.distribution[0][:, [forecaster.model.schema.sensor_names.index(name)]]
        middle, high = (physical(forecaster.model, name, column.quantile(level)[:, 0]) for level in (0.5, CAUTIOUS))
        assert ahead.middle[name] == pytest.approx(middle, rel=1e-4, abs=1e-5)
        assert ahead.high[name] == pytest.approx(high, rel=1e-4, abs=1e-5)
        assert path_ST.shape == (SAMPLES, HORIZONS[-1])
        # Every path has a mirrored twin: where one lies above the middle, the other lies below it.
        half = SAMPLES // 2
        assert (np.sign(path_ST[:half] - middle) == -np.sign(path_ST[half:] - middle)).mean() > 0.99


def test_of_samples_alone_the_median_and_the_cautious_quantile_are_known() -> None:
    timeline = Timeline.of_log(logged().schema, logged().commands[:5])
    ranks = np.arange(1.0, 100.0)[:, None] * np.ones(5)
    found = LoadForecast.sampled(timeline, {"a": ranks})
    assert found.middle["a"].tolist() == [50.0] * 5
    assert found.high["a"] == pytest.approx([95.0] * 5)


def test_fewer_rows_than_the_context_are_refused() -> None:
    table, model = logged(), small_model(logged())
    LoadForecaster(model, table.sensors[:CONTEXT], table.commands[:CONTEXT])
    with pytest.raises(TableError, match=f"at least {CONTEXT}"):
        LoadForecaster(model, table.sensors[: CONTEXT - 1], table.commands[: CONTEXT - 1])
