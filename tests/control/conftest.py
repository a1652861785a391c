"""A small program, a machine, an untrained model of its channels: enough for everything but the size of the gain."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from crossfeed.control import planner
from crossfeed.control.load_forecast import CuttingLaw, LoadForecast
from crossfeed.control.machine import Workpiece
from crossfeed.control.timeline import Timeline
from crossfeed.logs.table import Group, Table
from crossfeed.model.presets import crossfeed
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import canonical
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table

CONTEXT, HORIZONS = 16, (1, 2, 4, 8)


@pytest.fixture(autouse=True)
def _searches_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search ends when its seconds are over: on a busy machine with another plan than on an idle one."""
    monkeypatch.setattr(planner, "search", partial(planner.search, clock=lambda: 0.0))


PROGRAM = """; Material: steel
N10 G90 G94 G17
N20 T="SCHAFT_D12_N_AP30"
N30 M6
N40 S3000 M3
N50 G0 X-10. Y0. Z5.
N60 G1 Z-1. F300
N70 X60. F600
N80 Y6.
N90 X-10. F500 ; back
N100 G0 Z20.
N110 M5
N120 M30
"""


@pytest.fixture(scope="session")
def piece() -> Workpiece:
    return Workpiece.of(PROGRAM, "small", machine_named("spinner_620"))


@pytest.fixture(scope="session")
def timeline(piece: Workpiece) -> Timeline:
    return Timeline.of(piece.program, canonical(), 1.0, piece.motion_limits)


@dataclass(frozen=True)
class Files:
    """What a user has on disk."""

    folder: Path
    model: Path
    log: Path
    program: Path


def logged(rows: int = 60, sessions: int = 6) -> Table:
    """A machine that turns at some speeds and feeds now and then."""
    draw = np.random.default_rng(5)
    schema, total = canonical(), rows * sessions
    commands = np.zeros((total, 4))
    commands[:, 0] = np.repeat(draw.choice([1500.0, 3000.0, 6000.0], -(-total // 15)), 15)[:total]
    commands[:, 1] = np.repeat(draw.choice([0.0, 400.0, 600.0], -(-total // 5)), 5)[:total]
    sensors = 1.0 + 0.1 * draw.standard_normal((total, len(schema.sensors)))
    sensors[:, 1] = 0.3 + 1e-4 * commands[:, 0] + 0.004 * commands[:, 1] + 0.05 * draw.standard_normal(total)
    sensors[:, 2] = sensors[:, 1] * commands[:, 0] / 9550.0
    groups = tuple(Group("mill", f"s{n}", f"p{n}", "", n * rows, (n + 1) * rows) for n in range(sessions))
    time = np.tile(np.arange(rows, dtype=float), sessions)
    return Table(schema, groups, time, sensors, commands, 1.0, {"origin": "test"})


def small_model(table: Table, members: int = 2) -> WorldModel:
    """Random weights, the same at every call."""
    normaliser = Normaliser.fit(split_table(table).train_rows(table))
    update = {"context": CONTEXT, "horizons": HORIZONS, "members": members}
    torch.manual_seed(0)
    model = WorldModel.build(crossfeed("tiny").model.model_copy(update=update), table.schema, normaliser).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # fresh heads say nothing, all of them the same
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("control")
    table = logged()
    table.write(folder / "log.parquet")
    small_model(table).save(folder / "model.safetensors", {"machines": ["mill"]})
    (folder / "small.mpf").write_text(PROGRAM, encoding="utf-8")
    return Files(folder, folder / "model.safetensors", folder / "log.parquet", folder / "small.mpf")


@pytest.fixture
def law() -> CuttingLaw:
    return CuttingLaw({"spindle_torque": (0.2, 1e-4), "spindle_power": (0.0, 1e-4)})


def known_forecast(timeline: Timeline, torque: float, power: float = 1.0, samples: int = 24) -> LoadForecast:
    """Loads that are known up to a per cent, the same at every place."""
    noise = 1.0 + 0.01 * np.random.default_rng(1).standard_normal((samples, len(timeline)))
    paths = {"spindle_torque": torque * noise, "spindle_power": power * noise}
    return LoadForecast.sampled(timeline, paths)
