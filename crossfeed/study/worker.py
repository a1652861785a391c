"""One run of a study: train, measure the bundle, write the outcome as the last file."""

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from crossfeed.errors import CrossfeedError, TrainingError
from crossfeed.json_file import write_json
from crossfeed.locks import locked
from crossfeed.processes import end_with_parent
from crossfeed.study.record.identity import check_version, code_hash, source_tables
from crossfeed.study.record.outcomes import COLLAPSED, OUTCOME, artefacts
from crossfeed.study.record.rules import rules_of
from crossfeed.study.record.store import Run, Store

# The exit code of a run that cannot succeed by trying again.
REFUSED = 2
REPLAY_TOLERANCE = 1e-4


def execute(folder: Path, name: str, device: str = "auto") -> dict[str, Any]:
    """Bring one run to its outcome; going on where a killed process left off, doing nothing twice."""
    store = Store(folder)
    run = store.run(name)
    run_folder = folder / "runs" / name
    with locked(folder / "owners" / f"run-{name}.lock"):
        if (run_folder / OUTCOME).is_file():
            return dict(json.loads((run_folder / OUTCOME).read_text(encoding="utf-8")))
        outcome = _outcome(store, run, run_folder, device)
        write_json(run_folder / OUTCOME, outcome)
    return outcome


def execute_logged(folder: Path, name: str, device: str, threads: int, log: Path, code: str) -> None:
    """The same in a process of its own: its words go to the run's log, its exit code says how it ended."""
    end_with_parent()
    words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(words, 1)
    os.dup2(words, 2)
    import torch

    torch.set_num_threads(threads)
    try:
        check_code(code)
        execute(folder, name, device)
    except CrossfeedError as error:
        print(error, file=sys.stderr)
        sys.exit(REFUSED)


def check_code(wanted: str) -> None:
    """A run is made by the source files of the search that started it, or not at all."""
    if code_hash() != wanted:
        raise CrossfeedError(
            f"This process imported other source files than the search that started it: {Path(__file__).parents[1]}.",
            expected="one package for the search and all of its runs",
            remedy="If files were edited or updated in the meantime, start the search again. Otherwise another copy of "
            "crossfeed stands before the right one on the path.",
        )


def _outcome(store: Store, run: Run, run_folder: Path, device: str) -> dict[str, Any]:
    from crossfeed.configuration import parse
    from crossfeed.evaluation.bundle import measure_bundle
    from crossfeed.model.world_model import WorldModel
    from crossfeed.training.run import train
    from crossfeed.training.run_config import RunConfig

    protocol = check_version(store)
    tables = source_tables(store)
    config = parse(RunConfig, run.config, f"Run '{run.name}'")
    try:
        result = train(tables, config, run_folder, resume=True, device=device)
    except TrainingError as error:
        return {"invalid": str(error.found), "code": code_hash(), "artefacts": artefacts(run_folder)}
    model = WorldModel.load(result.model)
    path, as_in_paper = run_folder / "bundle.json", rules_of(protocol["name"]).measured == "paper"
    bundle = measure_bundle(model, tables, config, result.summary, protocol["shared_sensors"], path, as_in_paper)
    invalid = _invalid(result.summary, bundle)
    return {"invalid": invalid, "bundle": bundle, "code": code_hash(), "artefacts": artefacts(run_folder)}


def _invalid(summary: dict[str, Any], bundle: dict[str, Any]) -> str:
    """Why a finished run may not enter the ranking; empty when it may."""
    pretrained = summary["stages"].get("pretrain", {})
    if pretrained.get("collapse"):
        return f"{COLLAPSED} at the selected pretraining checkpoint: {pretrained['collapse']}"
    at_training, replayed = summary["validation"]["model"]["rmse"], bundle["replay_rmse"]
    if not math.isclose(at_training, replayed, rel_tol=REPLAY_TOLERANCE):
        return f"replay mismatch: RMSE {at_training:.6g} at the end of training, {replayed:.6g} from the saved file"
    return ""
