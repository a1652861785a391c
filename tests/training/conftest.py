"""Small synthetic machines for the training tests: a stable linear system that follows its commands."""

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch

from crossfeed.configuration import override
from crossfeed.logs.table import Group, Table
from crossfeed.schema import Channel, Schema
from crossfeed.training.run import train
from crossfeed.training.run_config import RunConfig, preset

torch.set_num_threads(1)

TOY = Schema(
    name="toy",
    sensors=tuple(Channel(name=f"current_{number}", quantity="current", unit="A") for number in range(5)),
    commands=tuple(Channel(name=f"feed_{number}", quantity="feed", unit="mm/min") for number in range(2)),
)


def toy_table(
    machine: str = "toy", sessions: int = 9, rows: int = 60, seed: int = 0, absent: tuple[str, ...] = ()
) -> Table:
    """Sensors that approach a level set by the commands, with a little noise; commands change every few rows."""
    random = np.random.default_rng(seed)
    gain_AC = np.random.default_rng(99).normal(size=(2, 5))
    groups, sensors, commands = [], [], []
    for session in range(sessions):
        command_NA = np.repeat(random.normal(size=(rows // 4 + 1, 2)), 4, axis=0)[:rows] * 100.0
        state_C, values_NC = random.normal(size=5), np.empty((rows, 5))
        for row in range(rows):
            state_C = 0.6 * state_C + 0.4 * command_NA[row] / 100.0 @ gain_AC
            values_NC[row] = 5.0 + 3.0 * state_C + 0.1 * random.normal(size=5)
        start = session * rows
        groups.append(Group(machine, f"session-{session:02d}", "run", f"program-{session % 3}", start, start + rows))
        sensors.append(values_NC)
        commands.append(command_NA)
    table = Table(
        schema=TOY,
        groups=tuple(groups),
        time=np.tile(np.arange(rows, dtype=float), sessions),
        sensors=np.concatenate(sensors),
        commands=np.concatenate(commands),
        period=1.0,
        manifest={},
    )
    return table.without(absent) if absent else table


SMALL: dict[str, Any] = {
    "model.context": 8,
    "model.horizons": [1, 2, 4],
    "training.batch_size": 16,
    "training.steps_per_epoch": 4,
    "training.validation_windows": 32,
    "training.finetune_epochs": 2,
    "training.learning_rate": 1e-3,
}
SMALL_JEPA: dict[str, Any] = SMALL | {
    "model.blocks.width": 16,
    "model.blocks.heads": 2,
    "model.encoder.channel_layers": 1,
    "model.encoder.temporal_layers": 1,
    "model.predictor.layers": 1,
    "training.pretrain_epochs": 2,
    "training.ema_momentum": 0.98,
    "training.health.windows": 32,
}
SMALL_SENSORS: dict[str, Any] = SMALL | {
    "model.width": 16,
    "model.heads": 2,
    "training.warmup_steps": 2,
    "training.average_decay": 0.5,
}


def small_config(changes: dict[str, Any] | None = None, name: str = "mended") -> RunConfig:
    """A run that takes a second; `changes` are dotted names."""
    small = SMALL_SENSORS if name == "crossfeed" else SMALL_JEPA
    return override(preset(name, "tiny"), small | (changes or {}))


@pytest.fixture(scope="session")
def table() -> Table:
    return toy_table()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three machines that differ in size by a thousand and in period by ten."""
    from tests.training.many_machines import MANY, other_size

    out = tmp_path_factory.mktemp("fleet") / "run"
    tables = [
        toy_table("small", seed=1),
        other_size(toy_table("large", seed=2), 1000.0, 0.1),
        toy_table("half blind", seed=3, absent=("current_3",)),
    ]
    train(tables, small_config(MANY, "crossfeed"), out, device="cpu")
    return out
