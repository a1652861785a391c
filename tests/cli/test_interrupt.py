"""Ctrl-C on the commands that take long: a sentence, exit code 130, and the same result after going on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from crossfeed.cli.common import STOPPED
from crossfeed.model.model_file import read_model_file
from tests.training.conftest import SMALL_SENSORS, toy_table
from tests.typed import as_words, typed

SETTINGS = as_words({**SMALL_SENSORS, "training.finetune_epochs": 4})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with a source and a target table."""
    folder = tmp_path_factory.mktemp("interrupted")
    toy_table().write(folder / "source.parquet")
    toy_table("second", sessions=4, rows=80, seed=5, absent=("current_4",)).write(folder / "target.parquet")
    return folder


def _run(folder: Path, *words: str) -> str:
    """Run a command that nobody interrupts."""
    done = typed(*words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


# The command presses Ctrl-C itself, for all its processes, when it comes to some call for the n-th time.
PRESS = """
import importlib, os, signal, sys
place, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
owner = importlib.import_module(place.partition(":")[0])
owner = getattr(owner, place.partition(":")[2]) if ":" in place else owner
real, calls = getattr(owner, name), []

def pressed(*arguments, **named):
    calls.append(None)
    if len(calls) == count:
        os.kill(0, signal.SIGINT)
    return real(*arguments, **named)

setattr(owner, name, pressed)
sys.argv[1:] = sys.argv[4:]
from crossfeed.cli import main
main()
"""


def _interrupt(folder: Path, place: str, name: str, count: int, *words: str) -> str:
    """Run a command that is interrupted at a certain call, and give what it said."""
    told = subprocess.run(
        [sys.executable, "-c", PRESS, place, name, str(count), *words],
        cwd=folder, start_new_session=True, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert told.returncode == STOPPED, told.stderr
    assert "Traceback" not in told.stderr
    assert "Stopped." in told.stderr
    return told.stderr


def test_an_interrupted_training_goes_on_to_the_same_weights(folder: Path) -> None:
    words = ["train", "--table", "source.parquet", "--size", "tiny", "--device", "cpu", *SETTINGS]
    said = _interrupt(folder, "crossfeed.training.loop", "write_history", 2, *words, "--out", "stopped")
    assert "--out stopped --resume" in said
    assert "stopped by hand" in (folder / "stopped" / "log.txt").read_text(encoding="utf-8")
    _run(folder, "train", "--table", "source.parquet", "--device", "cpu", "--out", "stopped", "--resume")
    _run(folder, *words, "--out", "undisturbed")
    weights = [read_model_file(folder / name / "model.safetensors").tensors for name in ("stopped", "undisturbed")]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[1])


def test_an_interrupted_search_runs_every_run_once(folder: Path) -> None:
    tables = ["--source", "source.parquet", "--target", "target.parquet", "--keep-targets"]
    _run(folder, "study", "init", "study", *tables, "--size", "tiny", *SETTINGS)
    search = ["study", "search", "study", "--only", "preset", "--only", "four_movers", "--seeds", "1"]
    # The first wait, with a run just begun: how many more there are depends on how quick the machine is.
    said = _interrupt(folder, "crossfeed.jobs", "wait", 1, *search)
    assert "the same command: crossfeed study search study" in said
    _run(folder, *search)
    runs = json.loads(_run(folder, "study", "runs", "study", "--json"))
    assert len(runs) == 2
    assert {run["status"] for run in runs} <= {"finished", "invalid"}


def test_an_interrupted_comparison_goes_on_to_the_same_table(folder: Path) -> None:
    words = [
        "compare",
        "--source",
        "source.parquet",
        "--models",
        "persistence,mlp,gru",
        "--budget",
        "smoke",
        "--seeds",
        "1",
    ]
    said = _interrupt(folder, "crossfeed.evaluation.baselines.compare", "run_once", 2, *words, "--out", "stopped_table")
    assert "the same command: crossfeed compare" in said
    rows = []
    for out in ("stopped_table", "whole_table"):
        _run(folder, *words, "--out", out)
        rows.append(
            {row["model"]: row["mean"] for row in json.loads((folder / out / "table.json").read_text())["rows"]}
        )
    assert rows[0] == rows[1]
