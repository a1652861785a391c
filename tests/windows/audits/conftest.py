"""Logs to audit: a small simulated pair and a spindle that obeys physics."""

from pathlib import Path

import numpy as np
import pytest

from crossfeed.logs.table import Table
from crossfeed.windows.audits.subject import Case, subjects_of


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Native logs of two simulated machines: a few sessions of THWS kind, the shortest JOANNEUM set with windows."""
    from crossfeed.sim.physics.production import Order
    from crossfeed.sim.simulate import Scale, simulate_pair

    folder = tmp_path_factory.mktemp("pair")
    order = Order(rows=1_200, sessions=6, raw_rows=2_200, duplicates=3, lost_rows=1)
    simulate_pair(folder, Scale(order, cycles=330_000), seed=0)
    return folder


@pytest.fixture(scope="session")
def source(pair: Path) -> Table:
    from crossfeed.logs.log_formats import log_format_named
    from crossfeed.logs.pipeline import ingest

    return ingest(log_format_named("thws"), pair / "thws")


def case_of(*tables: Table, **more: object) -> Case:
    """A case without files."""
    subjects = tuple(subject for number, table in enumerate(tables) for subject in subjects_of(table, f"table{number}"))
    return Case(subjects, tuple(tables), **more)


def spindle_rows(rows: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    """A spindle that obeys physics: set-points in steps, torque under load, power a little above torque x speed."""
    rng = np.random.default_rng(seed)
    speed = np.repeat(rng.choice([0.0, 3000.0, 8000.0, 12000.0], size=rows // 20 + 1), 20)[:rows]
    torque = np.where(speed > 0, 4.0 + rng.normal(scale=0.5, size=rows), 0.0)
    power = 1.08 * torque * speed * 2 * np.pi / 60 / 1000 + rng.normal(scale=0.005, size=rows)
    return {"spindle_speed": speed, "spindle_torque": torque, "spindle_power": power}
