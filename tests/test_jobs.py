"""Jobs: each outcome is made once, a job that dies is begun again, and processes find what one process finds."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crossfeed.errors import ConfigError, CrossfeedError, StorageError
from crossfeed.jobs import InProcess, JobSpec, LocalEngine, RayEngine, make_engine, once, run_all

FACTOR = 3


def prepared() -> int:
    return FACTOR


def times(factor: int, number: int) -> int:
    print(f"{number} by {factor}", flush=True)
    return factor * number


def dying(factor: int, number: int, mark: Path) -> int:
    """Dies by its own hand the first time."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return factor * number


def always_dying(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refused(*_: Any) -> None:
    raise CrossfeedError("This cannot be.")


def job(folder: Path, call: Any, number: int, *more: Any) -> JobSpec:
    return JobSpec(f"job {number}", call, (number, *more), folder / f"{number}.txt")


def outcomes(engine: LocalEngine | InProcess, jobs: Sequence[JobSpec]) -> dict[str, int]:
    waiting = iter(jobs)
    return {one.name: found for one, found in engine.run(lambda: next(waiting, None), prepared)}


def test_processes_find_what_this_process_finds_and_write_logs(tmp_path: Path) -> None:
    jobs = [job(tmp_path, times, number) for number in range(5)]
    found = outcomes(LocalEngine(2), jobs)
    assert found == outcomes(InProcess(), jobs) == {f"job {number}": FACTOR * number for number in range(5)}
    assert [(tmp_path / f"{number}.txt").read_text() for number in range(5)] == [f"{n} by {FACTOR}\n" for n in range(5)]


def test_a_job_that_dies_is_begun_again_and_the_others_go_on(tmp_path: Path) -> None:
    jobs = [job(tmp_path, dying, 1, tmp_path / "mark"), job(tmp_path, times, 2), job(tmp_path, times, 3)]
    assert outcomes(LocalEngine(1), jobs) == {"job 1": FACTOR, "job 2": 2 * FACTOR, "job 3": 3 * FACTOR}
    assert (tmp_path / "mark").exists()


def test_a_job_that_always_dies_or_is_refused_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(CrossfeedError, match=f"'job 1' ended with code -{signal.SIGKILL.value} .* it said nothing"):
        outcomes(LocalEngine(1), [job(tmp_path, always_dying, 1)])
    with pytest.raises(CrossfeedError, match=r"'job 2' ended with code 2 .*This cannot be") as caught:
        outcomes(LocalEngine(1), [job(tmp_path, refused, 2)])
    assert str(tmp_path / "2.txt") in caught.value.remedy


def test_an_outcome_is_made_once_and_appears_whole(tmp_path: Path) -> None:
    path, made = tmp_path / "runs" / "a.json", []

    def make() -> dict[str, Any]:
        made.append(None)
        return {"rmse": 0.5}

    assert once(path, make) == once(path, make) == {"rmse": 0.5}
    assert len(made) == 1
    assert [entry.name for entry in path.parent.iterdir()] == ["a.json"], "no lock stays behind"
    path.write_text(path.read_text().replace("0.5", "0.4"))
    with pytest.raises(StorageError, match="was changed"):
        once(path, make)


def test_in_a_pipe_every_job_that_ended_is_a_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    jobs = [job(tmp_path, times, number) for number in range(2)]
    assert [found for _, found in run_all("Jobs", jobs, FACTOR, prepared, 1, lambda found: f"found {found}")] == [0, 3]
    assert capfd.readouterr().err.splitlines() == ["[1/2] job 0: found 0", "[2/2] job 1: found 3"]


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ConfigError, match="no engine 'cloud'"):
        make_engine("cloud", 1)


class Pretended:
    """What the engine asks of Ray, done at once in this process; the first task fails where it should."""

    exceptions = SimpleNamespace(RayError=type("RayError", (Exception,), {}))

    def __init__(self, fails: bool) -> None:
        self.fails, self.asked, self.most_waiting = fails, dict[str, Any](), 0

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: Any) -> None:
        self.asked |= options

    def remote(self, **options: Any) -> Any:
        self.asked |= options

        def of(function: Any) -> Any:
            return SimpleNamespace(remote=lambda *arguments: (function, arguments))

        return of

    def wait(self, references: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        self.most_waiting = max(self.most_waiting, len(references))
        return references[:num_returns], references[num_returns:]

    def get(self, reference: Any) -> Any:
        if self.fails:
            raise self.exceptions.RayError("the node is gone")
        function, arguments = reference
        return function(*arguments)


def test_ray_gets_so_many_jobs_at_a_time_and_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Pretended(fails=False)
    monkeypatch.setitem(sys.modules, "ray", ray)
    jobs = [job(tmp_path, times, number) for number in range(5)]
    engine = make_engine("ray", 2, "auto", 0.25)
    waiting = iter(jobs)
    found = {one.name: outcome for one, outcome in engine.run(lambda: next(waiting, None), prepared)}
    assert found == outcomes(InProcess(), jobs)
    assert ray.most_waiting == 2
    assert (ray.asked["address"], ray.asked["num_gpus"], ray.asked["max_retries"]) == ("auto", 0.25, 2)


def test_a_job_that_fails_on_the_cluster_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", Pretended(fails=True))
    waiting = iter([job(tmp_path, times, 7)])
    with pytest.raises(CrossfeedError, match="'job 7' failed on the cluster: the node is gone"):
        list(RayEngine().run(lambda: next(waiting, None), prepared))


def test_ray_without_the_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match="needs the package ray") as caught:
        next(RayEngine().run(lambda: None))
    assert "crossfeed[ray]" in caught.value.remedy
