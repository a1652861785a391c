import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError, CrossfeedError
from crossfeed.study.candidates import choose
from crossfeed.study.engines import LocalEngine, RayEngine, make_engine
from crossfeed.study.study import Study
from tests.study.conftest import begin

KILLS = int(os.environ.get("CROSSFEED_KILLS", "4"))
SEARCH = "from crossfeed.study.study import Study; import sys; Study(sys.argv[1]).search()"


def plan_two(folder: Path) -> Study:
    study = begin(folder)
    study.plan(choose(study.config, only=["per_horizon_vicreg", "low_latent_weight"]), seeds=1)
    return study


def numbers(study: Study) -> dict[str, object]:
    """What a search found, without the hashes of files that hold wall-clock times."""
    return {run.name: {**run.outcome, "artefacts": None} for run in study.store.runs()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    study = plan_two(tmp_path_factory.mktemp("undisturbed") / "study")
    study.search(LocalEngine(jobs=1))
    return numbers(study)


def test_a_search_killed_again_and_again_ends_with_the_same_numbers(
    tmp_path: Path, undisturbed: dict[str, object]
) -> None:
    study = plan_two(tmp_path / "study")
    moments = random.Random(7)
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, "-c", SEARCH, str(study.store.folder)])
        time.sleep(moments.uniform(0.5, 8.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
    study.search(LocalEngine(jobs=1))
    assert numbers(study) == undisturbed
    finished = [entry.content["name"] for entry in study.ledger() if entry.kind == "run"]
    assert sorted(finished) == sorted(undisturbed), "no run lost, none recorded twice"
    assert study.verify().problems == ()


def test_a_finished_run_is_never_run_again(tmp_path: Path, undisturbed: dict[str, object]) -> None:
    study = plan_two(tmp_path / "study")
    study.search(LocalEngine(jobs=2))
    assert numbers(study) == undisturbed, "two processes side by side give the same numbers as one"
    written = {path: path.stat().st_mtime_ns for path in (study.store.folder / "runs").rglob("*") if path.is_file()}
    study.plan(choose(study.config, only=["per_horizon_vicreg"]), seeds=1)
    study.search()
    assert written == {path: path.stat().st_mtime_ns for path in written}


def test_two_searches_at_once_share_the_work(tmp_path: Path, undisturbed: dict[str, object]) -> None:
    study = plan_two(tmp_path / "study")
    command = [sys.executable, "-c", SEARCH, str(study.store.folder)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(timeout=600) for process in processes] == [0, 0]
    assert numbers(study) == undisturbed
    assert study.verify().problems == ()


def test_a_run_that_cannot_be_trained_is_invalid_and_the_rest_goes_on(tmp_path: Path) -> None:
    study = begin(tmp_path / "study", settings={"training.learning_rate": 1e12, "training.clip_norm": 1e12})
    study.plan(choose(study.config, only=["per_horizon_vicreg"]), seeds=1)
    study.search()
    (run,) = study.store.runs()
    assert run.status == "invalid"
    assert "is no number" in run.outcome["invalid"] or "is infinite" in run.outcome["invalid"]
    assert study.rank()[0].seeds == 0


def test_a_run_that_dies_is_tried_again_and_then_reported(tmp_path: Path) -> None:
    study = plan_two(tmp_path / "study")
    # A folder where the run's files should go, holding something else, makes every attempt fail with a clear error.
    (study.store.folder / "runs" / "per_horizon_vicreg-0").mkdir(parents=True)
    (study.store.folder / "runs" / "per_horizon_vicreg-0" / "stranger.txt").write_text("not a run")
    with pytest.raises(CrossfeedError, match="ended with code 2") as caught:
        study.search()
    assert "not the folder of a run" in caught.value.found
    assert {run.status for run in study.store.runs()} == {"pending"}, "nothing stays claimed"


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ConfigError, match="no engine 'cloud'"):
        make_engine("cloud", 1)


def test_ray_without_the_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match="needs the package ray") as caught:
        next(RayEngine().execute(tmp_path, lambda: None))
    assert "crossfeed[ray]" in caught.value.remedy


def _kill_a_worker_at_work(folder: Path, killed: list[int]) -> None:
    """Wait until a run has saved an epoch, then kill the Ray worker that is a descendant of this very process."""
    while not list((folder / "runs").glob("*/state.safetensors")):
        time.sleep(0.05)
    for pid in _descendants(os.getpid()):
        if b"_execute_on_worker" in _read(Path(f"/proc/{pid}/cmdline")):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)


def _descendants(parent: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        # The parent's number is the second field after the name, which may hold blanks and stands in brackets.
        fields = _read(place / "stat").rpartition(b")")[2].split()
        if fields and int(fields[1]) == parent:
            found += [int(place.name), *_descendants(int(place.name))]
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # a process that has just ended
        return b""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the worker's process in /proc")
def test_ray_retries_a_killed_worker_and_finds_the_same_numbers(tmp_path: Path, undisturbed: dict[str, object]) -> None:
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    study = plan_two(tmp_path / "study")
    killed: list[int] = []
    ray.init(num_cpus=2, log_to_driver=False, configure_logging=False, include_dashboard=False)
    try:
        killer = threading.Thread(target=_kill_a_worker_at_work, args=(study.store.folder, killed), daemon=True)
        killer.start()
        study.search(RayEngine(jobs=1))
        killer.join(timeout=10)
    finally:
        ray.shutdown()
    assert killed, "no worker was killed, so nothing was shown"
    assert numbers(study) == undisturbed
    assert study.verify().problems == ()


def test_outcomes_are_plain_json(undisturbed: dict[str, object]) -> None:
    assert json.loads(json.dumps(undisturbed, allow_nan=False)) == undisturbed
