"""Declared ablations: flagged runs count and are marked, the confirmatory opening comes first, the control repeats."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from crossfeed.errors import ConfigError
from crossfeed.files import read_sealed, write_sealed
from crossfeed.study import vault
from crossfeed.study.opening import Drift, control_drift
from crossfeed.study.record.declaration import RMSE_COMPONENTS, declared, verdict_of
from crossfeed.study.record.score import COLLAPSED
from crossfeed.study.record.store import Run
from crossfeed.study.study import Study
from tests.study.conftest import InProcess, kinds

ARMS: dict[str, dict[str, Any]] = {"control": {}, "revin": {"model.instance_norm.kind": "pure"}}


class Flagging(InProcess):
    """An engine whose variant is better on the source and flagged by the gate after pretraining, as in the paper."""

    def run(self, next_job: Any, prepare: Any = None) -> Any:
        for job, outcome in super().run(next_job, prepare):
            if ".revin-" in job.name:
                outcome["invalid"] = f"{COLLAPSED} at the selected pretraining checkpoint: raw spread 0.04"
                outcome["bundle"]["components"] |= dict.fromkeys(RMSE_COMPONENTS, 0.01)
            yield job, outcome


def _by_name(study: Study) -> dict[str, Run]:
    return {run.name: run for run in study.store.runs()}


def test_an_ablation_whose_runs_the_gate_flagged_could_not_be_opened(opened: Study) -> None:
    opened.declare("revin", ARMS, 1)
    opened.search(Flagging("cpu"))
    assert _by_name(opened)["revin.revin-0"].status == "invalid", "it stays out of every ranking"
    assert verdict_of(opened.store, declared(opened.store, "revin")).seeds == (0,)
    result = opened.unseal("revin")
    assert {"revin.control-0", "revin.revin-0"} <= result["scores"].keys(), "all runs are scored, as in the paper"
    assert list(result["flagged"]) == ["revin.revin-0"]
    verdict = next(entry.content for entry in opened.ledger() if entry.kind == "verdict")
    assert "raw spread" in verdict["flagged"]["revin.revin-0"]


def test_the_control_was_whichever_arm_came_first_in_the_alphabet(opened: Study) -> None:
    opened.declare("order", {"with": {}, "alone": {"model.instance_norm.kind": "pure"}}, 1)
    found = declared(opened.store, "order")
    assert list(found.arms) == ["with", "alone"]

    class Better(InProcess):
        def run(self, next_job: Any, prepare: Any = None) -> Any:
            for job, outcome in super().run(next_job, prepare):
                if ".alone-" in job.name:
                    outcome["bundle"]["components"] |= dict.fromkeys(RMSE_COMPONENTS, 0.01)
                yield job, outcome

    opened.search(Better("cpu"))
    assert verdict_of(opened.store, found).differences["clean"][0] < 0.0, "the variant is better than the control"
    assert [line.arm for line in opened.contrasts() if line.metric == "clean"] == ["with", "alone"]


def test_runs_that_failed_are_named_when_no_seed_is_left(opened: Study) -> None:
    class Failing(InProcess):
        def run(self, next_job: Any, prepare: Any = None) -> Any:
            for job, outcome in super().run(next_job, prepare):
                yield job, {**outcome, "invalid": "replay mismatch"} if ".revin-" in job.name else outcome

    opened.declare("revin", ARMS, 1)
    opened.search(Failing("cpu"))
    with pytest.raises(ConfigError, match=r"revin\.revin-0: replay mismatch") as caught:
        opened.unseal("revin")
    assert "would fail again" in caught.value.remedy


def test_a_declared_opening_came_before_the_confirmatory_one(locked: Study) -> None:
    locked.declare("revin", ARMS, 1)
    locked.search(InProcess("cpu"))
    with pytest.raises(ConfigError, match="confirmatory opening comes first"):
        locked.unseal("revin")
    assert not {"verdict", "opening"} & set(kinds(locked))
    forged = locked.store.record("opening", {"purpose": "declared: revin", "runs": []})
    with pytest.raises(ConfigError, match="vault stays closed"):
        vault.reveal(locked.store, forged)


def test_a_control_that_does_not_repeat_its_search_run_opens_nothing(opened: Study) -> None:
    opened.declare("revin", ARMS, 2)

    class Drifting(InProcess):
        def run(self, next_job: Any, prepare: Any = None) -> Any:
            for job, outcome in super().run(next_job, prepare):
                if job.name == "revin.control-1":
                    outcome["bundle"]["components"]["clean"] *= 1.01
                yield job, outcome

    opened.search(Drifting("cpu"))
    drift = _drift(opened)
    assert drift["revin.control-0"].share == 0.0, "an undisturbed control repeats to the last bit"
    strayed = drift["revin.control-1"]
    assert strayed.component == "clean"
    assert strayed.repeated == pytest.approx(1.01 * strayed.searched)
    with pytest.raises(ConfigError, match=r"does not reproduce.*revin.control-1: clean .* instead of "):
        opened.unseal("revin")
    assert kinds(opened).count("opening") == 1
    assert opened.ledger()[-1].content["control_drift"]["revin.control-1"]["component"] == "clean"


def _locked(study: Study) -> str:
    return next(str(entry.content["candidate"]) for entry in study.ledger() if entry.kind == "lock")


def _drift(study: Study) -> dict[str, Drift]:
    return control_drift(study.store, declared(study.store, "revin"), _locked(study))


def _moved(study: Study, component: str, by: float) -> None:
    """Say that the first control run was trained on a GPU and that it found another value there."""
    path = study.store.folder / "runs" / "revin.control-0" / "summary.json"
    write_sealed(path, {**read_sealed(path), "device": "cuda"})
    with study.store.transaction() as connection:
        connection.execute(
            "UPDATE runs SET outcome = json_set(outcome, ?, json_extract(outcome, ?) + ?) WHERE name = ?",
            (*2 * (f"$.bundle.components.{component}",), by, "revin.control-0"),
        )


def _apart(study: Study) -> dict[str, float]:
    """How far the seeds of the locked candidate are from each other, component by component."""
    runs = [run for run in study.store.runs("finished") if run.candidate == _locked(study)]
    seeds = [run.outcome["bundle"]["components"] for run in runs]
    return {name: max(run[name] for run in seeds) - min(run[name] for run in seeds) for name in seeds[0]}


@pytest.fixture(scope="module")
def ablated_folder(opened_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The opened study with an ablation that was declared and trained."""
    study = Study(shutil.copytree(opened_folder, tmp_path_factory.mktemp("ablated") / "study"))
    study.declare("revin", ARMS, 1)
    study.search(InProcess("cpu"))
    return study.store.folder


@pytest.fixture
def ablated(ablated_folder: Path, tmp_path: Path) -> Study:
    """A copy of it."""
    return Study(shutil.copytree(ablated_folder, tmp_path / "ablated"))


def test_a_control_on_a_gpu_was_refused_for_what_moves_from_seed_to_seed(ablated: Study) -> None:
    apart = _apart(ablated)["masked"]
    repeated = _by_name(ablated)["revin.control-0"].outcome["bundle"]["components"]["masked"]
    allowed = max(apart, 0.02 * repeated)
    _moved(ablated, "masked", 0.9 * allowed)
    found = _drift(ablated)["revin.control-0"]
    assert (found.component, round(found.share, 3)) == ("masked", 0.9)
    _moved(ablated, "masked", 0.2 * allowed)
    assert _drift(ablated)["revin.control-0"].share > 1.0


def test_a_control_on_a_gpu_was_refused_for_a_third_of_a_percent_of_coverage(ablated: Study) -> None:
    _moved(ablated, "calibration", 0.0035)
    assert _drift(ablated)["revin.control-0"].share < 0.36
    _moved(ablated, "calibration", 0.01 + _apart(ablated)["calibration"])
    assert _drift(ablated)["revin.control-0"].share > 1.0
