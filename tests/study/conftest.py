"""A miniature sealed study on toy machines; the finished one is made once per session and copied by the tests."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.jobs import Engine, InProcess, JobSpec, NextJob, Prepare
from crossfeed.study import vault
from crossfeed.study.study import Study
from tests.training.conftest import SMALL_JEPA, SMALL_SENSORS, toy_table
from tests.typed import as_words

CANDIDATES = ("token_commands", "mixed_masks", "no_auxiliary_terms", "low_latent_weight")
# Toy models neither learn much nor stay healthy in four steps; the thresholds are those of the protocol elsewhere.
SHORT: dict[str, Any] = SMALL_JEPA | {
    "training.health.rank_floor": 0.0,
    "training.health.spread_floor": 0.0,
    "training.pretrain_epochs": 1,
    "training.finetune_epochs": 1,
}


@dataclass
class Invented:
    """An engine that trains nothing: the clean RMSE of a run comes from a function of its candidate and seed."""

    clean: Callable[[str, int], float]
    stop_after: int = 10**6
    bundle: dict[str, Any] | None = None
    invalid: Callable[[str, int], str] = lambda _candidate, _seed: ""
    done: int = 0
    device: str = "cpu"

    def run(self, next_job: NextJob, prepare: Prepare = None) -> Iterator[tuple[JobSpec, dict[str, Any]]]:  # noqa: ARG002
        while (job := next_job()) is not None:
            if self.done == self.stop_after:
                raise KeyboardInterrupt
            self.done += 1
            candidate, _, seed = job.name.rpartition("-")
            yield job, self.outcome(candidate, int(seed))

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


def write_tables(folder: Path, rule: str = "crossfeed") -> tuple[Path, Path]:
    """Two toy machines in a folder beside the study's, the second one with a sensor less."""
    tables, manifest = folder.parent / f"{folder.name}-tables", {"rules": {"rule": rule}}
    first = toy_table("source", sessions=8, rows=50)
    second = toy_table("target", sessions=3, rows=40, seed=5, absent=("current_4",))
    replace(first, manifest=manifest).write(tables / "source.parquet")
    replace(second, manifest=manifest).write(tables / "target.parquet")
    return tables / "source.parquet", tables / "target.parquet"


def begin(folder: Path, target: bool = True, **options: Any) -> Study:
    """A study of the first machine with the second one sealed, or of the first alone."""
    source, sealed = write_tables(folder, options.pop("rule", "crossfeed"))
    small = SMALL_SENSORS if options.get("protocol") == "crossfeed" else SHORT
    settings = small | options.pop("settings", {})
    options = {
        "protocol": "mended",
        "minimum_seeds": 2,
        "shared": [] if target else ["current_0", "current_1"],
    } | options
    return Study.init(folder, [source], [sealed] if target else [], size="tiny", settings=settings, **options)


def command(*words: object, engine: Engine | None = None, code: int = 0) -> str:
    """What `crossfeed study ...` prints; runs are executed by the given engine instead of by new processes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("crossfeed.jobs.make_engine", lambda *_: engine or InProcess("cpu"))
        shown = CliRunner().invoke(app, ["study", *map(str, words)], env={"COLUMNS": "160"}, catch_exceptions=False)
    assert shown.exit_code == code, shown.output
    return shown.stdout if "--json" in words else shown.output


@pytest.fixture(scope="session")
def locked_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four candidates from the command line: begun, searched, confirmed and locked."""
    folder = tmp_path_factory.mktemp("studies") / "study"
    source, target = write_tables(folder)
    only = [f"--only={name}" for name in CANDIDATES]

    def read(*_: object) -> None:
        raise AssertionError("the vault was read before the lock")

    with pytest.MonkeyPatch.context() as watched:
        watched.setattr(vault, "_read", read)
        init = ["--source", source, "--target", target, "--protocol", "mended", "--size", "tiny", "--minimum-seeds", 2]
        assert "1 target table sealed" in command("init", folder, *init, *as_words(SHORT))
        assert "Ranking by the robust score" in command("search", folder, "--seeds", 1, *only)
        assert "The leader stands" in command("confirm", folder, "--most-seeds", 5)
        locked = command("lock", folder)
        assert "Locked" in locked
        assert "(the median one)" in locked
        assert "Nothing changed" in command("verify", folder)
    return folder


@pytest.fixture
def locked(locked_folder: Path, tmp_path: Path) -> Study:
    """A copy of the locked study that a test may spoil; that it works elsewhere shows that a study can be moved."""
    return Study(shutil.copytree(locked_folder, tmp_path / "moved"))


@pytest.fixture(scope="session")
def opened_folder(locked_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The locked study after its confirmatory opening."""
    folder = shutil.copytree(locked_folder, tmp_path_factory.mktemp("opened") / "study")
    shown = command("unseal", folder)
    assert "persistence" in shown
    assert "May it be trusted on " in shown
    return folder


@pytest.fixture
def opened(opened_folder: Path, tmp_path: Path) -> Study:
    """A copy of the opened study."""
    return Study(shutil.copytree(opened_folder, tmp_path / "opened"))


def kinds(study: Study) -> list[str]:
    """What the ledger holds, in order."""
    return [entry.kind for entry in study.ledger()]


def plan_two(folder: Path, **settings: object) -> Study:
    """Two runs to be made, with two epochs in a stage: there is something to go on from."""
    study = begin(folder, settings={"training.pretrain_epochs": 2, "training.finetune_epochs": 2} | settings)
    study.plan(study.candidates(["no_auxiliary_terms", "low_latent_weight"]), seeds=1)
    return study


def numbers(study: Study) -> dict[str, object]:
    """What a search found, without the hashes of files that hold wall-clock times."""
    return {run.name: {**run.outcome, "artefacts": None} for run in study.store.runs()}


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What these two runs find when nobody disturbs them."""
    study = plan_two(tmp_path_factory.mktemp("undisturbed") / "study")
    study.search(InProcess("cpu"))
    return numbers(study)
