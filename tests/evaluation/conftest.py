"""One small trained run on disk, with the table it was trained on and the table of another machine."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crossfeed.logs.table import Table
from crossfeed.training.run import train
from crossfeed.training.run_config import RunConfig, preset
from tests.evaluation.small_machine import CONTEXT, HORIZONS, small_table


@dataclass(frozen=True)
class TrainedRun:
    folder: Path
    source: Path
    target: Path
    config: RunConfig
    summary: dict[str, Any]


def small_config(name: str = "crossfeed", **data: object) -> RunConfig:
    config = preset(name, "tiny")
    alone = {"members": 1} if name == "crossfeed" else {}
    model = config.model.model_copy(update={"context": CONTEXT, "horizons": HORIZONS, **alone})
    health = config.training.health.model_copy(update={"windows": 64})
    pretrain_epochs = 0 if name == "crossfeed" else 1
    training = config.training.model_copy(
        update={
            "batch_size": 32,
            "pretrain_epochs": pretrain_epochs,
            "finetune_epochs": 2,
            "steps_per_epoch": 10,
            "warmup_steps": 0,
            "average_decay": 0.0 if pretrain_epochs else 0.8,
            "health": health,
        }
    )
    return config.model_copy(update={"model": model, "training": training, "data": config.data.model_copy(update=data)})


def target_table() -> Table:
    """Another machine: shifted, without a thermometer, its runs in two sessions each."""
    table = small_table(runs=5, rows=70, machine="lathe", level=0.5, seed=7)
    table.sensors[:, 2] = np.nan
    groups = []
    for group in table.groups:
        middle = group.start + 46
        groups += [replace(group, session=f"{group.session}a", stop=middle)]
        groups += [replace(group, session=f"{group.session}b", start=middle)]
    return replace(table, groups=tuple(groups))


def train_small(folder: Path, name: str) -> TrainedRun:
    source, target = folder / "source.parquet", folder / "target.parquet"
    table = small_table(runs=14, rows=60)
    table.write(source)
    target_table().write(target)
    config = small_config(name)
    result = train(table, config, folder / "run", device="cpu")
    return TrainedRun(folder / "run", source, target, config, result.summary)


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    return train_small(tmp_path_factory.mktemp("evaluated"), "crossfeed")


@pytest.fixture(scope="session")
def mended_run(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    return train_small(tmp_path_factory.mktemp("mended"), "mended")
