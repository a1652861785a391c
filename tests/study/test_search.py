"""Every planned run is made once, whoever makes it."""

import json
import multiprocessing
import time
from contextlib import suppress
from pathlib import Path

import pytest

from crossfeed.study.search import owner
from crossfeed.study.study import Study
from tests.study.conftest import InProcess, Invented, begin, numbers, plan_two


def _search(folder: Path) -> None:
    Study(folder).search(InProcess("cpu"))


def _traces(folder: Path) -> dict[Path, int]:
    """Every file of the runs with the time it was written."""
    found = {}
    for path in (folder / "runs").rglob("*"):
        with suppress(FileNotFoundError):  # temporary files come and go
            found[path] = path.stat().st_mtime_ns
    return found


def test_a_finished_run_is_never_run_again(tmp_path: Path) -> None:
    study = plan_two(tmp_path / "study")
    study.search(InProcess("cpu"))
    written = _traces(study.store.folder)
    study.plan(study.candidates(["no_auxiliary_terms"]), seeds=1)
    study.search(InProcess("cpu"))
    assert _traces(study.store.folder) == written


def test_two_searches_at_once_share_the_work(tmp_path: Path, undisturbed: dict[str, object]) -> None:
    study = plan_two(tmp_path / "study")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_search, args=(study.store.folder,)) for _ in range(2)]
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


def test_a_run_that_cannot_be_trained_is_invalid_and_the_rest_goes_on(tmp_path: Path) -> None:
    study = begin(tmp_path / "study", settings={"training.learning_rate": 1e12, "training.clip_norm": 1e12})
    study.plan(study.candidates(["no_auxiliary_terms"]), seeds=1)
    study.search(InProcess("cpu"))
    (run,) = study.store.runs()
    assert run.status == "invalid"
    assert "is no number" in run.outcome["invalid"] or "is infinite" in run.outcome["invalid"]
    assert study.rank()[0].seeds == 0


def test_outcomes_are_plain_json(undisturbed: dict[str, object]) -> None:
    assert json.loads(json.dumps(undisturbed, allow_nan=False)) == undisturbed
