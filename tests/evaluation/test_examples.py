"""Examples for fan charts: chosen by commands alone, true to the table, in physical units."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.evaluation.forecaster import naive_baselines
from crossfeed.evaluation.judge import ORDER, QUANTILES, choose_windows, evaluate, example_forecasts
from crossfeed.evaluation.metrics import EvaluationSet
from crossfeed.logs.table import Table
from tests.evaluation.conftest import TrainedRun
from tests.evaluation.small_machine import (
    CONTEXT,
    HORIZONS,
    SCHEMA,
    Physicist,
    evaluation_set,
    normaliser_of,
    small_table,
    window_set,
)


def test_each_regime_is_shown_once_and_every_example_comes_from_another_run() -> None:
    data = evaluation_set()
    found = example_forecasts(Physicist(data.normaliser), data, 4)
    assert [example["regime"] for example in found] == list(ORDER)
    assert len({example["run"] for example in found}) == 4


def test_history_truth_and_commands_are_the_rows_of_the_table() -> None:
    table = small_table()
    data = evaluation_set(table)
    for example in example_forecasts(Physicist(data.normaliser), data, 6):
        last = int(data.windows.origin_N2[int(data.windows.last_W[example["window"]]), 1])
        rows = slice(last - CONTEXT + 1, last + 1), slice(last + 1, last + 1 + HORIZONS[-1])
        for position, name in enumerate(SCHEMA.sensor_names):
            channel = example["channels"][name]
            assert channel["history"] == pytest.approx(table.sensors[rows[0], position], rel=1e-4, abs=1e-4)
            assert channel["truth"] == pytest.approx(table.sensors[rows[1], position], rel=1e-4, abs=1e-4)
        for position, name in enumerate(SCHEMA.command_names):
            command = example["commands"][name]
            assert command["before"] == pytest.approx(table.commands[rows[0], position], rel=1e-4, abs=1e-2)
            assert command["after"] == pytest.approx(table.commands[rows[1], position], rel=1e-4, abs=1e-2)
        assert table.groups[0].machine in example["run"]
        assert example["channels"]["power"]["unit"] == "kW"


def test_the_forecast_is_the_forecasters_own_in_physical_units() -> None:
    data = evaluation_set()
    physicist = Physicist(data.normaliser, spread=0.2)
    for example in example_forecasts(physicist, data, 4):
        batch = data.windows.batch(torch.tensor([example["window"]]))
        mean = data.normaliser.inverse_sensors(physicist.predict(batch).mean[0].numpy())
        for position, name in enumerate(SCHEMA.sensor_names):
            channel = example["channels"][name]
            assert channel["mean"] == pytest.approx(mean[:, position], rel=1e-4)
            half = 1.6449 * 0.2 * data.normaliser.sensor_scale[position]
            assert np.array(channel["quantiles"]["0.95"]) - channel["mean"] == pytest.approx(half, rel=1e-2)
            edges = np.array([channel["quantiles"][f"{level:g}"] for level in QUANTILES])
            assert (np.diff(edges, axis=0) > 0).all()


def test_an_absent_channel_is_not_shown_and_an_absent_value_is_null() -> None:
    table = small_table()
    table.sensors[:, 2] = np.nan
    table.sensors[::5, 0] = np.nan
    normaliser = normaliser_of(table)
    data = EvaluationSet(window_set(table, normaliser), SCHEMA, normaliser, normaliser)
    for example in example_forecasts(Physicist(normaliser), data, 4):
        assert set(example["channels"]) == {"current", "power"}
        assert None in example["channels"]["current"]["history"]


def test_points_have_no_quantiles() -> None:
    data = evaluation_set()
    persistence, _ = naive_baselines(HORIZONS)
    (example,) = example_forecasts(persistence, data, 1)
    assert example["channels"]["power"]["quantiles"] == {}


def test_the_choice_does_not_depend_on_what_the_sensors_did() -> None:
    table = small_table()
    changed = replace(table, sensors=np.random.default_rng(3).normal(size=table.sensors.shape))
    first, second = (choose_windows(evaluation_set(one, normaliser_of(table)), 7) for one in (table, changed))
    assert first == second


@settings(max_examples=15)
@given(count=st.integers(0, 12), seed=st.integers(0, 20), runs=st.integers(8, 10))
def test_there_are_never_more_examples_than_asked_for_and_none_twice(count: int, seed: int, runs: int) -> None:
    data = evaluation_set(small_table(runs=runs, rows=30, seed=seed))
    chosen = choose_windows(data, count)
    assert len(chosen) == min(count, len(data.windows))
    assert len({number for number, _ in chosen}) == len(chosen)


def test_evaluations_carry_examples_reliability_by_regime_and_intervals_by_channel(trained_run: TrainedRun) -> None:
    content = evaluate(trained_run.folder, trained_run.target, device="cpu")
    assert content.period == Table.read(trained_run.target).period
    assert {example["regime"] for example in content.examples["run"]} <= set(ORDER)
    by_regime = content.calibration["run"].by_regime
    assert set(by_regime) == set(content.by_regime["run"])
    for regime, found in by_regime.items():
        assert found.coverage["0.9"] == content.by_regime["run"][regime]["coverage90"]
        assert sum(found.pit) == pytest.approx(1.0)
    row = content.by_channel["run"]["current"]
    assert row.intervals["skill_rmse"].estimate == pytest.approx(row.metrics["skill_rmse"])
    inside, share = row.intervals["coverage90"], row.metrics["coverage90"]
    assert inside.low is not None
    assert inside.high is not None
    assert share is not None
    assert inside.low <= share <= inside.high
    assert set(content.command_use["run"].shuffled_by_channel) == {"current", "power"}
