"""A toy machine whose sensors follow its commands, as small as a window set can be."""

import numpy as np
import pytest
import torch

from crossfeed.evaluation.baselines.budget import Budget
from crossfeed.evaluation.baselines.network import Shape
from crossfeed.logs.table import Group, Table
from crossfeed.schema import Channel, Schema
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import Split, split_table
from crossfeed.windows.windows import WindowSet

CONTEXT, HORIZONS = 16, (1, 2, 4)


def toy_schema() -> Schema:
    return Schema(
        name="toy",
        sensors=tuple(Channel(name=name, quantity="current", unit="A") for name in ("fast", "slow", "sum")),
        commands=tuple(Channel(name=name, quantity="feed", unit="mm/min") for name in ("first", "second")),
    )


def toy_table(machine: str = "toy", sessions: int = 9, rows: int = 90, seed: int = 0) -> Table:
    """Two first-order lags of two command steps and their sum, with a little noise."""
    generator = np.random.default_rng(seed)
    sensors, commands, groups = [], [], []
    for session in range(sessions):
        a = np.repeat(generator.normal(size=(rows // 5 + 1, 2)), 5, axis=0)[:rows]
        x = np.zeros((rows, 3))
        for t in range(1, rows):
            x[t, 0] = 0.4 * x[t - 1, 0] + 0.6 * a[t, 0]
            x[t, 1] = 0.8 * x[t - 1, 1] + 0.2 * a[t, 1]
        x[:, 2] = x[:, 0] + x[:, 1]
        sensors.append(x + 0.02 * generator.normal(size=x.shape))
        commands.append(a)
        start = session * rows
        groups.append(Group(machine, f"s{session}", "r0", f"p{session}", start, start + rows))
    time = np.tile(np.arange(rows, dtype=float), sessions)
    return Table(toy_schema(), tuple(groups), time, np.concatenate(sensors), np.concatenate(commands), 1.0, {})


def window_set(table: Table, part: str | None, normaliser: Normaliser, split: Split) -> WindowSet:
    groups = None if part is None else split.groups(table, part)
    return WindowSet.build(table, groups, normaliser, CONTEXT, HORIZONS)


@pytest.fixture(scope="session")
def toy() -> Table:
    return toy_table()


@pytest.fixture(scope="session")
def parts(toy: Table) -> dict[str, WindowSet]:
    split = split_table(toy)
    normaliser = Normaliser.fit(split.train_rows(toy))
    return {part: window_set(toy, part, normaliser, split) for part in ("train", "validation", "test")}


@pytest.fixture(scope="session")
def gappy(toy: Table) -> WindowSet:
    """Windows in which one channel is absent throughout and entries of another are absent here and there."""
    split = split_table(toy)
    normaliser = Normaliser.fit(split.train_rows(toy))
    sensors = toy.sensors.copy()
    sensors[:, 2] = np.nan
    sensors[np.random.default_rng(1).random(len(toy)) < 0.2, 0] = np.nan
    holes = Table(toy.schema, toy.groups, toy.time, sensors, toy.commands, toy.period, {})
    return WindowSet.build(holes, None, normaliser, CONTEXT, HORIZONS)


@pytest.fixture(scope="session")
def shape() -> Shape:
    return Shape(CONTEXT, 3, 2, HORIZONS)


@pytest.fixture
def tiny_budget() -> Budget:
    return Budget(epochs=2, pretext_epochs=1, steps=2, batch_size=16, patience=2, validation_windows=64,
                  tree_rounds=5, tree_windows=200)  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
