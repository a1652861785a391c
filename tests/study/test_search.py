import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError, CrossfeedError
from crossfeed.study.candidates import choose
from crossfeed.study.engines import Engine, LocalEngine, RayEngine, make_engine
from crossfeed.study.owners import owner
from crossfeed.study.study import Study
from tests.study.conftest import InProcess, Invented, begin

KILLS = int(os.environ.get("CROSSFEED_KILLS", "2"))
# So many epochs that there is work left at the last kill.
EPOCHS = {"training.pretrain_epochs": max(2, KILLS), "training.finetune_epochs": max(2, KILLS)}
# Forked, so that a search begins at once; the runs of a local engine still start in processes of their own.
FORK = multiprocessing.get_context("fork")


def plan_two(folder: Path, **settings: object) -> Study:
    study = begin(folder, settings=settings)
    study.plan(choose(study.config, only=["per_horizon_vicreg", "low_latent_weight"]), seeds=1)
    return study


def numbers(study: Study) -> dict[str, object]:
    """What a search found, without the hashes of files that hold wall-clock times."""
    return {run.name: {**run.outcome, "artefacts": None} for run in study.store.runs()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    study = plan_two(tmp_path_factory.mktemp("undisturbed") / "study")
    study.search(InProcess())
    return numbers(study)


def _traces(folder: Path) -> dict[Path, int]:
    """Every file of the runs with the time it was written."""
    found = {}
    for path in (folder / "runs").rglob("*"):
        with suppress(FileNotFoundError):  # temporary files come and go
            found[path] = path.stat().st_mtime_ns
    return found


def _kill_at_work(folder: Path, delay: float) -> bool:
    """Start a search, wait until it writes something, and kill it a moment later; false if it had ended by then."""
    before = _traces(folder)
    process = FORK.Process(target=_search, args=(folder, LocalEngine(jobs=1)))
    process.start()
    while _traces(folder) == before and process.is_alive():
        time.sleep(0.02)
    time.sleep(delay)
    struck = process.is_alive()
    process.kill()
    process.join()
    return struck


def _search(folder: Path, engine: Engine) -> None:
    Study(folder).search(engine)


def test_a_search_killed_again_and_again_ends_with_the_same_numbers(tmp_path: Path) -> None:
    calm = plan_two(tmp_path / "calm", **EPOCHS)
    calm.search(InProcess())
    study = plan_two(tmp_path / "study", **EPOCHS)
    moments = random.Random(7)
    struck = [_kill_at_work(study.store.folder, moments.uniform(0.0, 0.5)) for _ in range(KILLS)]
    assert sum(struck) >= KILLS // 2, "most kills met a search at work"
    study.search(LocalEngine(jobs=1))
    assert numbers(study) == numbers(calm)
    finished = [entry.content["name"] for entry in study.ledger() if entry.kind == "run"]
    assert sorted(finished) == sorted(numbers(calm)), "no run lost, none recorded twice"
    assert study.verify().problems == ()


def test_a_finished_run_is_never_run_again(tmp_path: Path) -> None:
    study = plan_two(tmp_path / "study")
    study.search(InProcess())
    written = _traces(study.store.folder)
    study.plan(choose(study.config, only=["per_horizon_vicreg"]), seeds=1)
    study.search(InProcess())
    assert _traces(study.store.folder) == written


def test_two_searches_at_once_share_the_work(tmp_path: Path, undisturbed: dict[str, object]) -> None:
    study = plan_two(tmp_path / "study")
    processes = [FORK.Process(target=_search, args=(study.store.folder, InProcess())) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=600)
    assert [process.exitcode for process in processes] == [0, 0]
    assert numbers(study) == undisturbed, "two processes side by side give the same numbers as one"
    assert study.verify().problems == ()


def test_a_search_waits_for_runs_that_another_search_has_taken(tmp_path: Path) -> None:
    study = plan_two(tmp_path / "study")
    with owner(study.store.folder) as other:
        taken = study.store.claim(other)
        assert taken is not None
        outcome = Invented(lambda *_: 1.0).outcome(taken.candidate, 0)
        finish = threading.Timer(1.0, study.store.finish, (taken.name, "finished", outcome))
        finish.start()
        study.search(Invented(lambda *_: 2.0))
        finish.join()
    clean = {run.candidate: run.outcome["bundle"]["components"]["clean"] for run in study.store.runs()}
    assert clean == {"per_horizon_vicreg": 1.0, "low_latent_weight": 2.0}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the run's process in /proc")
def test_a_killed_run_is_started_again_and_finds_the_same_numbers(
    tmp_path: Path, undisturbed: dict[str, object]
) -> None:
    study = plan_two(tmp_path / "study")
    killed: list[int] = []
    arguments = (study.store.folder, b"crossfeed.study.template", killed)
    killer = threading.Thread(target=_kill_a_worker_at_work, args=arguments, daemon=True)
    killer.start()
    study.search(LocalEngine(jobs=1))
    killer.join(timeout=10)
    assert killed, "nothing was killed, so nothing was shown"
    assert numbers(study) == undisturbed


def test_a_run_that_cannot_be_trained_is_invalid_and_the_rest_goes_on(tmp_path: Path) -> None:
    study = begin(tmp_path / "study", settings={"training.learning_rate": 1e12, "training.clip_norm": 1e12})
    study.plan(choose(study.config, only=["per_horizon_vicreg"]), seeds=1)
    study.search(InProcess())
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


def _kill_a_worker_at_work(folder: Path, command: bytes, killed: list[int]) -> None:
    """Wait until a run has saved an epoch, then kill the process at work on it: a descendant of this very process."""
    while not list((folder / "runs").glob("*/state.safetensors")):
        time.sleep(0.01)
    for pid in _descendants(os.getpid())[::-1]:
        if command in _read(Path(f"/proc/{pid}/cmdline")):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
            return


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
        arguments = (study.store.folder, b"_execute_on_worker", killed)
        killer = threading.Thread(target=_kill_a_worker_at_work, args=arguments, daemon=True)
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
