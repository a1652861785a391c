"""Killed at any moment, resumed, the same final numbers bit for bit."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from crossfeed.configuration import override
from crossfeed.errors import ConfigError, StorageError
from crossfeed.logs.table import Table
from crossfeed.model.model_file import read_model_file
from crossfeed.training import checkpoint
from crossfeed.training.history import Row, read_history
from crossfeed.training.run import RunResult, train
from crossfeed.training.run_config import RunConfig
from tests.training.conftest import small_config, toy_table

SECONDS = ("train_seconds", "validation_seconds")
PRESETS = ("mended", "crossfeed")


class InterruptionError(Exception):
    """Stands for anything that ends a process between two epochs."""


def four_epochs(name: str) -> RunConfig:
    """Two epochs of each stage, or four of the only one."""
    return small_config({"training.finetune_epochs": 4}, name) if name == "crossfeed" else small_config(name=name)


@pytest.fixture(scope="module", params=PRESETS)
def config(request: pytest.FixtureRequest) -> RunConfig:
    return four_epochs(request.param)


@pytest.fixture(scope="module")
def undisturbed(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return train(toy_table(), config, tmp_path_factory.mktemp("undisturbed") / "run")


def assert_same_run(first: Path, second: Path) -> None:
    """Weights, history (but for the clock) and metrics agree in every bit; nothing but the run is left behind."""
    one, two = (read_model_file(folder / "model.safetensors") for folder in (first, second))
    assert one.tensors.keys() == two.tensors.keys()
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, two.tensors[name]), name
    rows = [
        [
            {name: value for name, value in row.items() if name not in SECONDS}
            for row in read_history(folder / "history.parquet")
        ]
        for folder in (first, second)
    ]
    assert rows[0] == rows[1]
    assert {path.name for path in first.iterdir()} == {path.name for path in second.iterdir()}


@pytest.mark.parametrize("stop", range(4))
def test_interrupted_after_any_epoch(
    undisturbed: RunResult, config: RunConfig, tmp_path: Path, table: Table, stop: int
) -> None:
    seen: list[Row] = []

    def interrupt(row: Row) -> None:
        seen.append(row)
        if len(seen) == stop + 1:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        train(table, config, tmp_path / "run", on_epoch=interrupt)
    after: list[Row] = []
    train(table, config, tmp_path / "run", resume=True, on_epoch=after.append)
    assert len(after) == 4 - len(seen)
    assert_same_run(undisturbed.folder, tmp_path / "run")


def test_state_is_saved_less_often_on_request(tmp_path: Path, table: Table) -> None:
    changes: dict[str, Any] = {"training.pretrain_epochs": 3, "training.save_every": 2}
    whole = train(table, small_config(changes), tmp_path / "whole")
    with pytest.raises(InterruptionError):
        train(table, small_config(changes), tmp_path / "run", on_epoch=_stop_at(0))
    assert not (tmp_path / "run" / checkpoint.STATE).exists()
    train(table, small_config(changes), tmp_path / "run", resume=True)
    assert_same_run(whole.folder, tmp_path / "run")


def test_interrupted_between_the_stages(
    undisturbed: RunResult, config: RunConfig, tmp_path: Path, table: Table
) -> None:
    with pytest.raises(InterruptionError):
        train(table, config, tmp_path / "run", on_epoch=_stop_at(1))
    (tmp_path / "run" / ".model.safetensors.123.partial").write_bytes(b"half")
    train(table, config, tmp_path / "run", resume=True)
    assert_same_run(undisturbed.folder, tmp_path / "run")


def _stop_at(epoch: int) -> Any:
    def interrupt(row: Row) -> None:
        if row["epoch"] == epoch:
            raise InterruptionError

    return interrupt


MOMENTS = (
    "in a step",
    "between best weights and state",
    "between state and history",
    "between model and summary",
    "while cleaning up",
)

# One process imports everything and forks a victim for every preset and moment, which trains until it kills itself.
KILLER = """
import os, signal, sys
from pathlib import Path
import pandas, pyarrow.parquet  # what the first written table would import, in every victim anew
from crossfeed.training import checkpoint, loop, run, step
from tests.training.conftest import toy_table
from tests.training.test_resume import MOMENTS, PRESETS, four_epochs

def die_at(count, real):
    calls = []
    def wrapped(*arguments, **named):
        calls.append(None)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)
    return wrapped

def victim(preset, moment):
    if moment == MOMENTS[0]:
        step.TrainStep.__call__ = die_at(7, step.TrainStep.__call__)
    elif moment == MOMENTS[1]:
        checkpoint.write_tensors = die_at(4, checkpoint.write_tensors)
    elif moment == MOMENTS[2]:
        loop.write_history = die_at(3, loop.write_history)
    elif moment == MOMENTS[3]:
        run.write_sealed = die_at(1, run.write_sealed)
    elif moment == MOMENTS[4]:
        run.remove_state = die_at(1, run.remove_state)
    run.train(toy_table(), four_epochs(preset), Path(sys.argv[1]) / preset / moment)

for preset in PRESETS:
    for moment in MOMENTS:
        child = os.fork()
        if child == 0:
            victim(preset, moment)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (preset, moment, status)
"""


@pytest.fixture(scope="module")
def all_killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one killed run for every preset and moment."""
    folder, root = tmp_path_factory.mktemp("killed"), Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(folder)],
        cwd=root,
        env=environment,
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return folder


@pytest.fixture
def killed(config: RunConfig, all_killed: Path) -> Path:
    """The killed runs of a preset."""
    return all_killed / ("crossfeed" if config.model.network == "sensors" else "mended")


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment(
    undisturbed: RunResult, config: RunConfig, killed: Path, table: Table, moment: str
) -> None:
    train(table, config, killed / moment, resume=True)
    assert_same_run(undisturbed.folder, killed / moment)


def test_resume_of_a_finished_run_changes_nothing(undisturbed: RunResult, config: RunConfig, table: Table) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in undisturbed.folder.glob("*.safetensors")}
    again = train(table, config, undisturbed.folder, resume=True)
    assert again.summary["validation"]["model"]["rmse"] == undisturbed.summary["validation"]["model"]["rmse"]
    assert before == {path.name: path.stat().st_mtime_ns for path in undisturbed.folder.glob("*.safetensors")}


def test_resume_in_an_empty_folder_starts(
    undisturbed: RunResult, config: RunConfig, tmp_path: Path, table: Table
) -> None:
    train(table, config, tmp_path / "run", resume=True)
    assert_same_run(undisturbed.folder, tmp_path / "run")


def test_resume_with_another_configuration_names_the_keys(
    undisturbed: RunResult, config: RunConfig, table: Table
) -> None:
    changed = override(config, {"training.seed": 3, "masks.ratio": 0.5})
    with pytest.raises(ConfigError) as caught:
        train(table, changed, undisturbed.folder, resume=True)
    assert "training.seed: 0 there, 3 asked" in str(caught.value)
    assert "masks.ratio: 0.35 there, 0.5 asked" in str(caught.value)


def test_resume_with_another_table_is_refused(undisturbed: RunResult, config: RunConfig) -> None:
    with pytest.raises(ConfigError, match=r"inputs\.tables"):
        train(toy_table(seed=5), config, undisturbed.folder, resume=True)


def test_full_disk_in_the_middle_can_be_resumed(
    undisturbed: RunResult, config: RunConfig, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = checkpoint.write_tensors, []

    def full(path: Path, *arguments: Any) -> None:
        calls.append(path)
        if len(calls) == 4:
            from crossfeed.files import atomic_file

            with atomic_file(path):
                raise OSError(28, "No space left on device")
        real(path, *arguments)

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    with pytest.raises(StorageError, match="No space left"):
        train(table, config, tmp_path / "run")
    monkeypatch.undo()
    train(table, config, tmp_path / "run", resume=True)
    assert_same_run(undisturbed.folder, tmp_path / "run")
