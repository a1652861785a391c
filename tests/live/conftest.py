"""A small machine, an untrained model of it, and a logger that writes its rows as a CSV with a mapping."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from crossfeed.evaluation.opened_model import OpenedModel, open_model
from crossfeed.logs.table import Table
from tests.evaluation.small_machine import small_table
from tests.scenarios.conftest import RANGE, make_model

LIMIT_S = 60.0


@dataclass(frozen=True)
class Shop:
    """What a user has: a model, the table it was made from, and a mapping for its logs."""

    folder: Path
    table: Table

    @property
    def opened(self) -> OpenedModel:
        return open_model(self.folder / "model.safetensors", "cpu")

    @property
    def mapping(self) -> Path:
        return self.folder / "mapping.yaml"

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.table.schema.sensor_names, *self.table.schema.command_names)

    def header(self) -> str:
        return ",".join(["time", *self.names]) + "\n"

    def lines(self, first: int, last: int, begin: float = 1.7e9, step: float = 1.0) -> str:
        """Rows of the table as CSV lines; a null is an empty cell."""
        values = np.concatenate([self.table.sensors, self.table.commands], axis=1)
        text = ""
        for row in range(first, last):
            cells = ["" if np.isnan(value) else f"{value:.6f}" for value in values[row % len(values)]]
            text += ",".join([f"{begin + row * step:.3f}", *cells]) + "\n"
        return text


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folder = tmp_path_factory.mktemp("live")
    table = small_table(runs=6, rows=60)
    make_model(table).save(folder / "model.safetensors", {"machines": ["mill"], "command_range": RANGE})
    found = Shop(folder, table)
    mapping: dict[str, Any] = {
        "machine": "mill",
        "schema": table.schema.model_dump(mode="json"),
        "time": {"column": "time", "unit": "s"},
        "columns": [{"native": name, "channel": name, "unit": table.schema.channel(name).unit} for name in found.names],
        "segmentation": {"gap_s": 5.0},
    }
    found.mapping.write_text(yaml.safe_dump(mapping), encoding="utf-8")
    return found


def within(seconds: float, work: Callable[[], Awaitable[Any]]) -> Any:
    """Run asynchronous work with a generous limit."""

    async def limited() -> Any:
        return await asyncio.wait_for(work(), seconds)

    return asyncio.run(limited())
