"""The loop: one space for every normaliser, runs as units, NaN named and left out."""

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from crossfeed.errors import TableError
from crossfeed.evaluation.command_use import CONDITIONS, under_false_plans
from crossfeed.evaluation.forecaster import naive_baselines
from crossfeed.evaluation.metrics import EvaluationSet, score_windows
from crossfeed.evaluation.opened_model import open_model
from crossfeed.evaluation.setup import set_up
from crossfeed.logs.table import Table
from crossfeed.model.distribution import Distribution
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table
from crossfeed.windows.windows import WindowBatch
from tests.evaluation.conftest import TrainedRun
from tests.evaluation.small_machine import (
    HORIZONS,
    SCHEMA,
    Physicist,
    evaluation_set,
    normaliser_of,
    small_table,
    window_set,
)


def test_the_normaliser_of_a_model_does_not_change_its_score() -> None:
    table = small_table()
    train_rows = split_table(table).train_rows(table)
    zscore, robust = Normaliser.fit(train_rows), Normaliser.fit(train_rows, "robust")
    found = []
    for normaliser in (zscore, robust):
        data = EvaluationSet(window_set(table, normaliser), SCHEMA, normaliser, zscore)
        forecaster, _ = naive_baselines(HORIZONS)
        forecaster.fit(data.windows, data.windows, 0)
        found.append(score_windows(forecaster, data).metrics())
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_a_robust_space_is_refused() -> None:
    table = small_table()
    robust = Normaliser.fit(split_table(table).train_rows(table), "robust")
    with pytest.raises(TableError, match="evaluation space is a 'robust' normaliser"):
        EvaluationSet(window_set(table, robust), SCHEMA, robust, robust)


def test_the_known_law_beats_the_floors_and_explains_the_machine() -> None:
    data = evaluation_set()
    physicist = score_windows(Physicist(data.normaliser), data)
    assert physicist.metrics()["r2"] > 0.95
    assert physicist.metrics()["skill_rmse"] > 0.7
    assert set(physicist.by("regime")) == {"idle", "steady", "start-up", "stop"}
    assert set(physicist.by("run")) == {f"mill/run{number}" for number in range(8)}
    assert physicist.windows == len(data.windows)


def test_the_persistence_floor_has_no_skill_against_itself() -> None:
    data = evaluation_set()
    forecaster, _ = naive_baselines(HORIZONS)
    forecaster.fit(data.windows, data.windows, 0)
    metrics = score_windows(forecaster, data).metrics()
    assert metrics["skill_rmse"] == pytest.approx(0.0, abs=1e-12)
    assert metrics["skill_mae"] == pytest.approx(0.0, abs=1e-12)


def test_sessions_or_programs_can_be_the_units() -> None:
    table = small_table()
    normaliser = normaliser_of(table)
    data = EvaluationSet(window_set(table, normaliser), SCHEMA, normaliser, normaliser, unit="program")
    assert data.runs == ("mill/program0", "mill/program1", "mill/program2")
    assert np.bincount(data.run_W).sum() == len(data.windows)


def test_reading_several_parts_at_a_time_gives_the_numbers_of_one_after_the_other(trained_run: TrainedRun) -> None:
    opened = open_model(trained_run.folder, "cpu")
    data = set_up(opened, Table.read(trained_run.target)).data
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            seen: list[Tensor] = []
            scores = score_windows(opened.forecaster, data, on_forecast=[lambda part, _: seen.append(part)])  # noqa: B023
            use = under_false_plans(opened.forecaster, data, data.sample(50), CONDITIONS, seed=0)
            assert torch.equal(torch.cat(seen), torch.arange(len(data.windows)))
            found.append([scores, *use.values()])
    finally:
        torch.set_num_threads(before)
    for alone, beside in zip(*found, strict=True):
        np.testing.assert_allclose(beside.sums, alone.sums, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(beside.pit.sum(-1), alone.pit.sum(-1))
        assert beside.windows == alone.windows


def test_a_forecaster_that_keeps_something_between_calls_is_asked_by_one_thread_at_a_time() -> None:
    data, asked = evaluation_set(), list[str]()

    class Keeping(Physicist):
        def predict(self, batch: WindowBatch) -> Distribution:
            asked.append(threading.current_thread().name)
            return super().predict(batch)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        score_windows(Keeping(data.normaliser), data)
    finally:
        torch.set_num_threads(before)
    assert set(asked) == {threading.main_thread().name}


def test_an_adapted_model_was_called_few_shot_in_every_folder(trained_run: TrainedRun, tmp_path: Path) -> None:
    folder = tmp_path / "mill 7"
    folder.mkdir()
    shutil.copy(trained_run.folder / "model.safetensors", folder / "few_shot.safetensors")
    assert open_model(folder, "cpu").forecaster.name == "mill 7"
    assert open_model(folder / "few_shot.safetensors", "cpu").forecaster.name == "few_shot"
