"""Where runs are made: by which package, on which engine, and what is said when a process dies."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from crossfeed.errors import CrossfeedError
from crossfeed.jobs import RayEngine
from crossfeed.study import search
from crossfeed.study.record.store import code_hash
from tests.study.conftest import begin, numbers, plan_two


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
    monkeypatch.setattr(search, "code_hash", lambda: "another")
    with pytest.raises(CrossfeedError, match="other source files than the search"):
        study.search()
    assert not list((study.store.folder / "runs").glob("*/*"))
    assert {run.status for run in study.store.runs()} == {"pending"}


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
