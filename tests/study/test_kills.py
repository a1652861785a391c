"""A search or a run that is killed at exact calls goes on as if nothing had happened."""

import multiprocessing
import os
import signal
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import pytest

from crossfeed import jobs
from crossfeed.evaluation import bundle
from crossfeed.jobs import Engine, LocalEngine
from crossfeed.study import search as searching
from crossfeed.study.record import ledger
from crossfeed.study.record.store import Store
from crossfeed.study.study import Study
from crossfeed.training import checkpoint, loop, run, step
from crossfeed.training import run as stages
from tests.study.conftest import InProcess, numbers, plan_two

# Forked, so that a search begins at once.
FORK = multiprocessing.get_context("fork")
EXECUTE = searching.execute


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
    (Store, "claim", 1), (searching, "check_version", 1), (step.TrainStep, "__call__", 1),
    (step.TrainStep, "__call__", 3),
    (checkpoint, "write_tensors", 1), (loop, "write_history", 1), (step.TrainStep, "__call__", 2),
    (checkpoint, "write_tensors", 2), (loop, "write_history", 2), (stages, "write_sealed", 1), (run, "remove_state", 1),
    (bundle, "measure_bundle", 1), (jobs, "write_sealed", 1), (Store, "finish", 1), (ledger, "append", 1),
    (Store, "claim", 2), (step.TrainStep, "__call__", 1), (Store, "release", 1), (loop, "write_history", 1),
    (Store, "finish", 1),
)  # fmt: skip


def _search_and_die(folder: Path, owner: object, name: str, count: int) -> None:
    _die_at(owner, name, count)
    _search(folder, InProcess("cpu"))


def _search_and_die_beside_a_run(folder: Path) -> None:
    """A search in processes of its own that is killed while one of them trains."""
    real = jobs.wait

    def dying(connections: list[Any], timeout: float) -> list[Any]:
        if (folder / "waiting").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return real(connections, timeout)

    jobs.wait = dying  # type: ignore[assignment]
    searching.execute = _execute_until_orphaned
    _search(folder, LocalEngine(jobs=1))


def _execute_until_orphaned(*arguments: Any) -> dict[str, Any]:
    """A run that has saved an epoch waits there until its search is dead, which ends it too."""
    real = loop.write_history

    def waiting(*values: object) -> None:
        real(*values)  # type: ignore[arg-type]
        (arguments[0] / "waiting").touch()
        while True:
            signal.pause()

    loop.write_history = waiting
    return EXECUTE(*arguments)


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
    study.search(InProcess("cpu"))
    assert numbers(study) == undisturbed
    finished = [entry.content["name"] for entry in study.ledger() if entry.kind == "run"]
    assert sorted(finished) == sorted(undisturbed), "no run lost, none recorded twice"
    assert study.verify().problems == ()


def test_a_search_killed_beside_its_working_run_is_taken_over(tmp_path: Path, undisturbed: dict[str, object]) -> None:
    study = plan_two(tmp_path / "study")
    # Not forked: it starts processes through a server, and one that this process has is not its child's.
    _killed(_search_and_die_beside_a_run, study.store.folder, context=multiprocessing.get_context("spawn"))
    assert list((study.store.folder / "runs").glob("*/state.safetensors")), "nothing was left half done"
    study.search(LocalEngine(jobs=1))
    assert numbers(study) == undisturbed
    assert [entry.kind for entry in study.ledger()].count("run") == 2


def _mortal(folder: Path, *arguments: Any) -> dict[str, Any]:
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
    return EXECUTE(folder, *arguments)


def test_a_killed_run_is_started_again_and_finds_the_same_numbers(
    tmp_path: Path, undisturbed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = plan_two(tmp_path / "study")
    monkeypatch.setattr(searching, "execute", _mortal)
    study.search(LocalEngine(jobs=1))
    assert (study.store.folder / "killed").exists(), "nothing was killed, so nothing was shown"
    assert numbers(study) == undisturbed
