"""The same seed gives the same bits: in another process, on other threads where torch allows, after a resume."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from crossfeed.errors import ConfigError
from crossfeed.logs.table import Table
from crossfeed.training.reproduce import compare_runs, reproduce
from crossfeed.training.run import RunResult, train
from tests.training.conftest import small_config, toy_table

CHANGES = {"training.finetune_epochs": 2}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return train(toy_table(), small_config(CHANGES, "crossfeed"), tmp_path_factory.mktemp("finished") / "run")


def test_a_run_repeats_itself_bit_by_bit(finished: RunResult, table: Table) -> None:
    found = reproduce(finished.folder, [table])
    assert found.same, found.verdict
    assert (found.epochs, found.largest_difference, found.different_tensors) == (2, 0.0, ())
    assert found.verdict.startswith("The same in every bit")


def test_another_process_repeats_it(finished: RunResult, table: Table, tmp_path: Path) -> None:
    table.write(tmp_path / "table.parquet")
    command = [
        sys.executable, "-m", "crossfeed", "reproduce", str(finished.folder), "--table",
        str(tmp_path / "table.parquet"), "--json",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "2"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout)["same"] is True


def test_two_threads_repeat_two_threads_and_differ_from_one_in_the_last_bits_only(
    finished: RunResult, table: Table, tmp_path: Path
) -> None:
    """Sums over threads are added in another order: that is said, and never taken for the same."""
    torch.set_num_threads(2)
    try:
        result = train(table, small_config(CHANGES, "crossfeed"), tmp_path / "run")
    finally:
        torch.set_num_threads(1)
    assert result.summary["environment"]["threads"] == 2
    assert reproduce(result.folder, [table]).same
    assert torch.get_num_threads() == 1
    assert compare_runs(finished.folder, result.folder).largest_difference < 1e-4


def test_a_run_that_was_stopped_and_resumed_is_reproduced(table: Table, tmp_path: Path) -> None:
    def stop(row: object) -> None:
        raise InterruptedError(row)

    config = small_config(CHANGES, "crossfeed")
    with pytest.raises(InterruptedError):
        train(table, config, tmp_path / "run", on_epoch=stop)
    train(table, config, tmp_path / "run", resume=True)
    assert reproduce(tmp_path / "run", [table]).same


def test_another_seed_is_seen_in_the_first_epoch(finished: RunResult, table: Table, tmp_path: Path) -> None:
    train(table, small_config(CHANGES | {"training.seed": 1}, "crossfeed"), tmp_path / "run")
    found = compare_runs(finished.folder, tmp_path / "run")
    assert not found.same
    assert found.first_different_epoch == "epoch 0 of finetune"
    assert found.largest_difference > 0.0
    assert found.different_tensors
    assert found.differences


def test_other_tables_and_unfinished_runs_are_refused(finished: RunResult, table: Table, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="trained on other tables"):
        reproduce(finished.folder, [toy_table(seed=5)])
    with pytest.raises(ConfigError, match="no finished run"):
        reproduce(tmp_path, [table])
    with pytest.raises(ConfigError, match="began from no pretrained body"):
        reproduce(finished.folder, [table], pretrained=finished.model)
