"""A run with everything beside it, a study at each stage, and one real miniature study to the end."""

import copy
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossfeed.files import write_json
from crossfeed.study.study import Study
from tests.front.report import material
from tests.front.report.runs import run_folder
from tests.study.conftest import InProcess, Invented, begin

TWO = ("no_auxiliary_terms", "mixed_masks")


@pytest.fixture(scope="session")
def contents() -> dict[bool, dict[str, Any]]:
    """Evaluations on the source (True) and on another machine (False), measured once."""
    return {own: material.evaluation(own) for own in (True, False)}


@pytest.fixture
def complete(tmp_path: Path, contents: dict[bool, dict[str, Any]]) -> Path:
    """A finished run with every folder that a report looks for beside it."""
    run_folder(tmp_path / "run")
    for own, name in ((True, "source"), (False, "target")):
        material.write(tmp_path / "evaluation" / name / "evaluation.json", contents[own])
    material.write(tmp_path / "adaptation" / "adaptation.json", material.adaptation())
    material.write(tmp_path / "comparison" / "table.json", material.comparison())
    material.write(tmp_path / "curve" / "curve.json", material.curve())
    material.write(tmp_path / "forecast" / "forecast.json", material.forecast())
    material.write(tmp_path / "audit.json", material.audit())
    return tmp_path / "run"


@pytest.fixture
def searched(tmp_path: Path) -> Study:
    """A study whose runs were invented, not trained."""
    study = begin(tmp_path / "study")
    study.plan(study.candidates(TWO), seeds=2)
    study.search(Invented(lambda candidate, seed: len(candidate) / 30 + seed / 100))
    return study


@pytest.fixture
def open_as(contents: dict[bool, dict[str, Any]]) -> Callable[[Study, str, str], dict[str, Any]]:
    """Records a lock and an opening whose result is the measured evaluation, under the names of runs."""

    def record(study: Study, purpose: str, run: str) -> dict[str, Any]:
        content = copy.deepcopy(contents[False])
        for part in content.values():
            if isinstance(part, dict) and "run" in part:
                part[run] = part.pop("run")
        if not any(entry.kind == "lock" for entry in study.ledger()):
            hashes = {f"{name}_sha256": "c" * 64 for name in ("config", "code", "normaliser", "checkpoint")}
            locked = {"candidate": run.rsplit("-", 1)[0], "seed": 0, "run": run, "data_sha256": ["d" * 64]}
            study.store.record("lock", locked | hashes)
        opening = study.store.record("opening", {"purpose": purpose, "runs": [run]})
        number = sum(entry.kind == "opening" for entry in study.ledger())
        path = study.store.folder / "results" / f"target-{number}.json"
        write_json(path, content)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        study.store.record(
            "opening result", {"opening": opening, "file": path.name, "sha256": digest, "purpose": purpose}
        )
        return content

    return record


@pytest.fixture(scope="session")
def real_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy study that was really searched, confirmed, locked and opened."""
    study = begin(tmp_path_factory.mktemp("real") / "study")
    study.plan(study.candidates(TWO[:1]), seeds=1)
    study.search(InProcess("cpu"))
    study.confirm(InProcess("cpu"), most_seeds=3)
    study.lock()
    study.unseal()
    return study.store.folder


@pytest.fixture
def real(real_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(real_folder, tmp_path / "real"))
