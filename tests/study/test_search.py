import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.context import BaseContext
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError, CrossfeedError
from crossfeed.evaluation import bundle
from crossfeed.study import engines, ledger, worker
from crossfeed.study.engines import Engine, LocalEngine, RayEngine, make_engine
from crossfeed.study.owners import owner
from crossfeed.study.protocol import code_hash
from crossfeed.study.store import Store
from crossfeed.study.study import Study
from crossfeed.training import loop, run, step
from crossfeed.training.record import checkpoint
from tests.study.conftest import InProcess, Invented, begin

# Forked, so that a search begins at once.
FORK = multiprocessing.get_context("fork")


def plan_two(folder: Path, **settings: object) -> Study:
    study = begin(folder, settings=settings)
    study.plan(study.candidates(["no_auxiliary_terms", "low_latent_weight"]), seeds=1)
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


def _die_at(owner: object, name: str, count: int) -> None:
    """Let the process that calls this kill itself at the n-th call of a function."""
    real, calls = getattr(owner, name), []

    def dying(*arguments: object, **named: object) -> object:
        calls.append(None)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)

    setattr(owner, name, dying)


# Where a search is killed: before and after a run is claimed, inside and between epochs, before and after a saved
# state, before and after a run's outcome is on disk, before and after the study knows of it.
MOMENTS: tuple[tuple[object, str, int], ...] = (
    (Store, "claim", 1), (worker, "check_version", 1), (step.TrainStep, "__call__", 1), (step.TrainStep, "__call__", 3),
    (checkpoint, "write_tensors", 1), (loop, "write_history", 1), (step.TrainStep, "__call__", 2),
    (checkpoint, "write_tensors", 2), (loop, "write_history", 2), (run, "write_sealed", 1), (run, "remove_state", 1),
    (bundle, "measure_bundle", 1), (worker, "write_json", 1), (Store, "finish", 1), (ledger, "append", 1),
    (Store, "claim", 2), (step.TrainStep, "__call__", 1), (Store, "release", 1), (loop, "write_history", 1),
    (Store, "finish", 1),
)  # fmt: skip


def _search_and_die(folder: Path, owner: object, name: str, count: int) -> None:
    _die_at(owner, name, count)
    _search(folder, InProcess())


def _search_and_die_beside_a_run(folder: Path) -> None:
    """A search in processes of its own that is killed while one of them trains."""
    real = engines.wait

    def dying(sentinels: list[int], timeout: float) -> list[int]:
        if list((folder / "runs").glob("*/state.safetensors")):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(sentinels, timeout)

    engines.wait = dying  # type: ignore[assignment]
    _search(folder, LocalEngine(jobs=1))


def _killed(target: object, *arguments: object, context: BaseContext = FORK) -> None:
    """Start a process and see it die by its own hand."""
    process = context.Process(target=target, args=arguments)  # type: ignore[attr-defined]
    process.start()
    process.join(timeout=600)
    assert process.exitcode == -signal.SIGKILL, arguments


def _search(folder: Path, engine: Engine) -> None:
    Study(folder).search(engine)


def test_a_search_killed_twenty_times_loses_no_run_and_doubles_none(
    tmp_path: Path, undisturbed: dict[str, object]
) -> None:
    study = plan_two(tmp_path / "study")
    for moment in MOMENTS:
        _killed(_search_and_die, study.store.folder, *moment)
    study.search(InProcess())
    assert numbers(study) == undisturbed
    finished = [entry.content["name"] for entry in study.ledger() if entry.kind == "run"]
    assert sorted(finished) == sorted(undisturbed), "no run lost, none recorded twice"
    assert study.verify().problems == ()


def test_a_search_killed_beside_its_working_run_is_taken_over(tmp_path: Path, undisturbed: dict[str, object]) -> None:
    study = plan_two(tmp_path / "study")
    # Not forked: it starts processes through a server, and one that this process has is not its child's.
    _killed(_search_and_die_beside_a_run, study.store.folder, context=multiprocessing.get_context("spawn"))
    study.search(LocalEngine(jobs=1))
    assert numbers(study) == undisturbed
    assert [entry.kind for entry in study.ledger()].count("run") == 2


def test_a_finished_run_is_never_run_again(tmp_path: Path) -> None:
    study = plan_two(tmp_path / "study")
    study.search(InProcess())
    written = _traces(study.store.folder)
    study.plan(study.candidates(["no_auxiliary_terms"]), seeds=1)
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


def test_a_search_waits_for_runs_that_another_search_has_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = plan_two(tmp_path / "study")
    with owner(study.store.folder) as other:
        taken = study.store.claim(other)
        assert taken is not None
        outcome = Invented(lambda *_: 1.0).outcome(taken.candidate, 0)
        # The other search ends its run while this one waits for it.
        monkeypatch.setattr(time, "sleep", lambda _: study.store.finish(taken.name, "finished", outcome))
        study.search(Invented(lambda *_: 2.0))
    clean = {run.candidate: run.outcome["bundle"]["components"]["clean"] for run in study.store.runs()}
    assert clean == {"no_auxiliary_terms": 1.0, "low_latent_weight": 2.0}


def _mortal(folder: Path, *arguments: object) -> None:
    """A run that kills itself when it comes to its second saved state, the first time round."""
    mark = folder / "killed"
    if not mark.exists():
        real, calls = checkpoint.write_tensors, []

        def dying(*values: object, **named: object) -> None:
            calls.append(None)
            if len(calls) == 2:
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            real(*values, **named)  # type: ignore[arg-type]

        checkpoint.write_tensors = dying
    worker.execute_logged(folder, *arguments)  # type: ignore[arg-type]


def test_a_killed_run_is_started_again_and_finds_the_same_numbers(
    tmp_path: Path, undisturbed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = plan_two(tmp_path / "study")
    monkeypatch.setattr(engines, "execute_logged", _mortal)
    study.search(LocalEngine(jobs=1))
    assert (study.store.folder / "killed").exists(), "nothing was killed, so nothing was shown"
    assert numbers(study) == undisturbed


def test_a_run_that_cannot_be_trained_is_invalid_and_the_rest_goes_on(tmp_path: Path) -> None:
    study = begin(tmp_path / "study", settings={"training.learning_rate": 1e12, "training.clip_norm": 1e12})
    study.plan(study.candidates(["no_auxiliary_terms"]), seeds=1)
    study.search(InProcess())
    (run,) = study.store.runs()
    assert run.status == "invalid"
    assert "is no number" in run.outcome["invalid"] or "is infinite" in run.outcome["invalid"]
    assert study.rank()[0].seeds == 0


def test_a_run_that_dies_is_tried_again_and_then_reported(tmp_path: Path) -> None:
    study = plan_two(tmp_path / "study")
    # A folder where the run's files should go, holding something else, makes every attempt fail with a clear error.
    (study.store.folder / "runs" / "no_auxiliary_terms-0").mkdir(parents=True)
    (study.store.folder / "runs" / "no_auxiliary_terms-0" / "stranger.txt").write_text("not a run")
    with pytest.raises(CrossfeedError, match="ended with code 2") as caught:
        study.search()
    assert "not the folder of a run" in caught.value.found
    assert {run.status for run in study.store.runs()} == {"pending"}, "nothing stays claimed"


def test_runs_were_trained_by_a_package_that_lay_in_the_folder_of_the_search(tmp_path: Path) -> None:
    study = begin(tmp_path / "study")
    study.plan(study.candidates(["no_auxiliary_terms"]), seeds=1)
    other = tmp_path / "other" / "crossfeed" / "__init__.py"
    other.parent.mkdir(parents=True)
    other.write_text("raise RuntimeError('a package of another folder')\n", encoding="utf-8")
    search = "import sys; from crossfeed.study.study import Study; Study(sys.argv[1]).search()"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(
        [sys.executable, "-P", "-c", search, str(study.store.folder)],
        cwd=tmp_path / "other",
        env=environment,
        check=True,
    )
    assert [run.status for run in study.store.runs()] == ["finished"]
    assert study.store.runs()[0].outcome["code"] == code_hash()


def test_a_process_with_other_source_files_than_its_search_trains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = plan_two(tmp_path / "study")
    monkeypatch.setattr(engines, "code_hash", lambda: "another")
    with pytest.raises(CrossfeedError, match="other source files than the search"):
        study.search()
    assert not list((study.store.folder / "runs").glob("*/*"))
    assert {run.status for run in study.store.runs()} == {"pending"}


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
