"""A miniature sealed study on toy machines; the finished one is made once per session and copied by the tests."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from crossfeed.study.study import Study
from tests.training.conftest import SMALL, toy_table

CANDIDATES = ("per_horizon_vicreg", "schema_and_command_recovery", "cross_attention_command", "low_latent_weight")
# Toy models neither learn much nor stay healthy in four steps; the thresholds are those of the protocol elsewhere.
LENIENT: dict[str, Any] = {"training.health.rank_floor": 0.0, "training.health.spread_floor": 0.0}


def begin(folder: Path, **options: Any) -> Study:
    """Two toy machines, the second one sealed and with a sensor less."""
    tables = folder.parent / f"{folder.name}-tables"
    toy_table("source", sessions=8, rows=50).write(tables / "source.parquet")
    toy_table("target", sessions=3, rows=40, seed=5, absent=("current_4",)).write(tables / "target.parquet")
    settings = SMALL | LENIENT | options.pop("settings", {})
    paths = ([tables / "source.parquet"], [tables / "target.parquet"])
    return Study.init(folder, *paths, size="tiny", settings=settings, **({"minimum_seeds": 2} | options))


@pytest.fixture(scope="session")
def locked_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four candidates, searched, confirmed and locked."""
    from crossfeed.study.candidates import choose
    from crossfeed.study.engines import LocalEngine

    study = begin(tmp_path_factory.mktemp("studies") / "study")
    study.plan(choose(study.config, only=CANDIDATES), seeds=1)
    study.search(LocalEngine(jobs=2))
    study.confirm(LocalEngine(jobs=2), most_seeds=5)
    study.lock()
    return study.store.folder


@pytest.fixture
def locked(locked_folder: Path, tmp_path: Path) -> Study:
    """A copy of the locked study that a test may spoil; that it works elsewhere shows that a study can be moved."""
    return Study(shutil.copytree(locked_folder, tmp_path / "moved"))
