"""Two small mills whose sensors follow their commands, and a model of the first, as a user has them on disk."""

import os
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest

import crossfeed as cf
from crossfeed.logs.table import Group
from crossfeed.schema import canonical

BRIEF = {
    "model.width": 16, "model.heads": 2, "model.members": 1, "training.batch_size": 8, "training.steps_per_epoch": 3,
    "training.finetune_epochs": 1, "training.validation_windows": 16,
}  # fmt: skip
MEASURED = ("spindle_current", "spindle_torque", "spindle_power", "z_current")


def mill(name: str, seed: int, sessions: int = 6, rows: int = 90) -> cf.Table:
    """Power is torque times speed, current follows torque; every session has a clock of its own."""
    schema, random = canonical(), np.random.default_rng(seed)
    count = sessions * rows
    commands = np.zeros((count, len(schema.commands)))
    commands[:, 0] = np.repeat(random.choice([0.0, 3000.0, 6000.0, 9000.0], size=count // 6 + 1), 6)[:count]
    commands[:, 1] = np.repeat(random.choice([0.0, 300.0, 600.0], size=count // 6 + 1), 6)[:count]
    commands[:, 3] = np.repeat(random.choice([0.0, 200.0], size=count // 6 + 1), 6)[:count]
    torque = 1.0 + 0.02 * commands[:, 1] + random.normal(0.0, 0.3, count)
    sensors = np.full((count, len(schema.sensors)), np.nan)
    values = {
        "spindle_torque": torque,
        "spindle_current": 1.5 * torque + 0.5 + random.normal(0.0, 0.1, count),
        "spindle_power": torque * commands[:, 0] * 2 * np.pi / 60e3 + 0.2 + random.normal(0.0, 0.02, count),
        "z_current": 2.0 + 0.004 * commands[:, 3] + random.normal(0.0, 0.1, count),
    }
    for channel, column in values.items():
        sensors[:, schema.sensor_names.index(channel)] = column
    groups = tuple(Group(name, f"s{i}", f"r{i}", f"part_{i % 2}", i * rows, (i + 1) * rows) for i in range(sessions))
    return cf.Table(schema, groups, np.tile(np.arange(rows) + 1.0, sessions), sensors, commands, 1.0, {})


@dataclass(frozen=True)
class House:
    """What lies in the folder."""

    folder: Path
    a: cf.Table
    b: cf.Table
    model: cf.FittedModel


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    folder = tmp_path_factory.mktemp("front")
    a, b = mill("mill_a", 0), mill("mill_b", 1, sessions=4, rows=170)
    a.write(folder / "a.parquet")
    b.write(folder / "b.parquet")
    model = cf.fit(a, size="tiny", out=folder / "run", settings=BRIEF, device="cpu")
    return House(folder, a, b, model)
