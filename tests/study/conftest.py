"""A miniature sealed study on toy machines; the finished one is made once per session and copied by the tests."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crossfeed.study import vault
from crossfeed.study.candidates import choose
from crossfeed.study.engines import NextRun
from crossfeed.study.study import Study
from crossfeed.study.worker import execute
from tests.training.conftest import SMALL, toy_table

CANDIDATES = ("per_horizon_vicreg", "schema_and_command_recovery", "cross_attention_command", "low_latent_weight")
# Toy models neither learn much nor stay healthy in four steps; the thresholds are those of the protocol elsewhere.
LENIENT: dict[str, Any] = {"training.health.rank_floor": 0.0, "training.health.spread_floor": 0.0}


class InProcess:
    """An engine without processes, for tests that are not about them."""

    def execute(self, folder: Path, next_run: NextRun) -> Iterator[tuple[str, dict[str, Any]]]:
        while (name := next_run()) is not None:
            yield name, execute(folder, name, "cpu")


@dataclass
class Invented:
    """An engine that trains nothing: the clean RMSE of a run comes from a function of its candidate and seed."""

    clean: Callable[[str, int], float]
    stop_after: int = 10**6
    bundle: dict[str, Any] | None = None
    invalid: Callable[[str, int], str] = lambda _candidate, _seed: ""
    done: int = 0

    def execute(self, folder: Path, next_run: NextRun) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ARG002
        while (name := next_run()) is not None:
            if self.done == self.stop_after:
                raise KeyboardInterrupt
            self.done += 1
            candidate, _, seed = name.rpartition("-")
            yield name, self.outcome(candidate, int(seed))

    def outcome(self, candidate: str, seed: int) -> dict[str, Any]:
        value = self.clean(candidate, seed)
        names = ("clean", "schema_drop", "masked", "long_horizon")
        bundle = {
            "components": dict.fromkeys(names, value) | {"calibration": 0.1, "ssl": 1.0},
            "ssl_scale_free": 0.5,
            "command_ratio": 1.2,
            "collapsed": False,
            "anchor": {"windows": "w", "space": "s"},
        }
        return {"invalid": self.invalid(candidate, seed), "bundle": bundle | (self.bundle or {}), "artefacts": {}}


def begin(folder: Path, target: bool = True, **options: Any) -> Study:
    """Two toy machines, the second one sealed and with a sensor less; or the first alone."""
    tables = folder.parent / f"{folder.name}-tables"
    toy_table("source", sessions=8, rows=50).write(tables / "source.parquet")
    targets = []
    if target:
        targets = [tables / "target.parquet"]
        toy_table("target", sessions=3, rows=40, seed=5, absent=("current_4",)).write(targets[0])
    else:
        options = {"shared": ["current_0", "current_1"]} | options
    settings = SMALL | LENIENT | options.pop("settings", {})
    options = {"minimum_seeds": 2} | options
    return Study.init(folder, [tables / "source.parquet"], targets, size="tiny", settings=settings, **options)


@pytest.fixture(scope="session")
def locked_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four candidates, searched, confirmed and locked."""
    study = begin(tmp_path_factory.mktemp("studies") / "study")

    def read(*_: object) -> None:
        raise AssertionError("the vault was read before the lock")

    with pytest.MonkeyPatch.context() as watched:
        watched.setattr(vault, "_read", read)
        study.plan(choose(study.config, only=CANDIDATES), seeds=1)
        study.search(InProcess())
        study.confirm(InProcess(), most_seeds=5)
        study.lock()
    return study.store.folder


@pytest.fixture
def locked(locked_folder: Path, tmp_path: Path) -> Study:
    """A copy of the locked study that a test may spoil; that it works elsewhere shows that a study can be moved."""
    return Study(shutil.copytree(locked_folder, tmp_path / "moved"))


@pytest.fixture(scope="session")
def opened_folder(locked_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The locked study after its confirmatory opening."""
    study = Study(shutil.copytree(locked_folder, tmp_path_factory.mktemp("opened") / "study"))
    study.unseal()
    return study.store.folder


@pytest.fixture
def opened(opened_folder: Path, tmp_path: Path) -> Study:
    """A copy of the opened study."""
    return Study(shutil.copytree(opened_folder, tmp_path / "opened"))


def kinds(study: Study) -> list[str]:
    """What the ledger holds, in order."""
    return [entry.kind for entry in study.ledger()]
