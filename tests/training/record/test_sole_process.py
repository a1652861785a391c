"""One process to a run."""

import subprocess
import sys
from pathlib import Path

import pytest

from crossfeed.errors import TrainingError
from crossfeed.training.folder import LOCK, sole_process
from crossfeed.training.run import train
from tests.training.conftest import small_config, toy_table

HOLD = """
import sys
from pathlib import Path
from crossfeed.training.folder import sole_process
with sole_process(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_told_which_one_works_there(tmp_path: Path) -> None:
    process = holder(tmp_path / "run")
    try:
        with pytest.raises(TrainingError, match=f"process {process.pid}"):
            train(toy_table(), small_config(), tmp_path / "run", resume=True)
    finally:
        process.kill()
        process.wait()


def test_a_killed_process_leaves_no_lock_that_counts(tmp_path: Path) -> None:
    process = holder(tmp_path)
    process.kill()
    process.wait()
    assert (tmp_path / LOCK).exists()
    with sole_process(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


def test_two_runs_on_one_folder_wrote_over_each_other(tmp_path: Path) -> None:
    with sole_process(tmp_path / "run"), pytest.raises(TrainingError, match="under way"):
        train(toy_table(), small_config(), tmp_path / "run")
    assert not list((tmp_path / "run").iterdir()), "the second one wrote nothing"
    train(toy_table(), small_config(), tmp_path / "run")
    assert not (tmp_path / "run" / LOCK).exists()
