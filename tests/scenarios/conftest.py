"""A small machine with an untrained model of it: enough for everything but the quality of forecasts."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from crossfeed.evaluation.opened_model import OpenedModel, open_model
from crossfeed.logs.table import Table
from crossfeed.model.presets import crossfeed, mended
from crossfeed.model.world_model import WorldModel
from tests.evaluation.small_machine import CONTEXT, HORIZONS, normaliser_of, small_table

RANGE = {"spindle_speed": [0.0, 3000.0], "feed_x": [0.0, 800.0]}


def make_model(table: Table, network: str = "sensors", **changes: object) -> WorldModel:
    """Random weights, the same at every call."""
    method = (crossfeed if network == "sensors" else mended)("tiny")
    config = method.model.model_copy(update={"context": CONTEXT, "horizons": HORIZONS, **changes})
    torch.manual_seed(0)
    return WorldModel.build(config, table.schema, normaliser_of(table)).eval()


@dataclass(frozen=True)
class Place:
    """What a user has on disk."""

    folder: Path
    model: Path
    log: Path
    table: Table

    @property
    def opened(self) -> OpenedModel:
        return open_model(self.model, "cpu")


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("serving")
    table = small_table(runs=6, rows=60)
    table.write(folder / "log.parquet")
    model = make_model(table)
    model.save(folder / "model.safetensors", {"machines": ["mill"], "command_range": RANGE})
    return Place(folder, folder / "model.safetensors", folder / "log.parquet", table)
