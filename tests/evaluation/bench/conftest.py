"""A machine with a clock and five minutes of logs, and a model of two other machines, as small as they can be."""

import os
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

from crossfeed.logs.table import Table
from crossfeed.training.run import train
from tests.training.conftest import small_config, toy_table

MANY = {
    "model.identity": "described", "model.members": 1, "data.normaliser": "frame", "machines.gain": 0.7,
    "machines.commands": 0.3, "model.width": 16, "model.heads": 2,
}  # fmt: skip
CONTEXT, HORIZONS = 8, (1, 2, 4)
WINDOW = CONTEXT + HORIZONS[-1]


def own_table(sessions: int = 6, rows: int = 100) -> Table:
    return toy_table("mine", sessions=sessions, rows=rows, seed=7)


@pytest.fixture(scope="session")
def own() -> Table:
    """Ten minutes at 1 Hz in six sessions."""
    return own_table()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two machines, one of them a thousand times the other."""
    large = toy_table("large", seed=2)
    tables = [toy_table("small", seed=1), replace(large, sensors=1000.0 * large.sensors)]
    return train(tables, small_config(MANY, "crossfeed"), tmp_path_factory.mktemp("many") / "run", device="cpu").model


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epochs of a quick run are enough to see that somebody learns."""
    monkeypatch.setattr("crossfeed.evaluation.bench.curve.MOST_EPOCHS", 8)
