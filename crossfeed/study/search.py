"""Plan runs and bring them all to an outcome: resumable at any point, no run twice, none lost.

A run trains, measures the bundle, and writes its outcome as the last file. Successive halving plans over seeds:
everybody gets the first seed, the better half the second, and so on.
"""

import math
import os
import platform
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crossfeed.configuration import override, parse
from crossfeed.errors import ConfigError, CrossfeedError, TrainingError
from crossfeed.files import is_locked, locked
from crossfeed.jobs import Engine, JobSpec, once, one_bar
from crossfeed.study.record import ledger
from crossfeed.study.record.score import COLLAPSED, OUTCOME, Score, artefacts, outcomes, rank, rules_of
from crossfeed.study.record.store import UNFINISHED, Run, Store, check_version, code_hash, run_name, source_tables
from crossfeed.training.run_config import RunConfig

REPLAY_TOLERANCE = 1e-4


def plan_runs(store: Store, candidates: Mapping[str, RunConfig], seeds: Iterable[int], stage: str) -> int:
    """Put every candidate with every seed on the list; a candidate that is there under another meaning is refused."""
    known = {run.candidate: run.config for run in store.runs()}
    runs: list[tuple[str, str, int, str, dict[str, Any]]] = []
    for candidate, config in candidates.items():
        for seed in seeds:
            resolved = override(config, {"training.seed": seed}).model_dump(mode="json")
            _check_same(candidate, resolved, known.get(candidate))
            runs.append((run_name(candidate, seed), candidate, seed, stage, resolved))
    return store.add_runs(runs)


def search(store: Store, engine: Engine) -> None:
    """Work until every planned run has an outcome, from here or from another search; dead ones' runs are taken over."""
    left = sum(run.status in UNFINISHED for run in store.runs())
    with owner(store.folder) as me, one_bar("Study", left, left) as tell:

        def next_job() -> JobSpec | None:
            run = store.claim(me)
            if run is None:
                return None
            arguments = (store.folder.resolve(), run.name, engine.device, code_hash())
            return JobSpec(run.name, execute, arguments, store.folder / "logs" / f"{run.name}.txt")

        try:
            while True:
                for run in store.runs("running"):
                    if not is_alive(store.folder, run.owner):
                        store.release(run.name)
                for job, outcome in engine.run(next_job):
                    store.finish(job.name, "invalid" if outcome["invalid"] else "finished", outcome)
                    candidate, _, seed = job.name.rpartition("-")
                    tell(f"{candidate}, seed {seed}: {_in_words(outcome)}", 1.0)
                if not any(run.status in UNFINISHED for run in store.runs()):
                    return
                time.sleep(0.5)
        finally:
            for run in store.runs("running"):
                if run.owner == me:
                    store.release(run.name)


def _in_words(outcome: dict[str, Any]) -> str:
    if outcome["invalid"]:
        return f"invalid: {outcome['invalid']}"
    return f"clean RMSE {outcome['bundle']['components']['clean']:.3f}"


@contextmanager
def owner(folder: Path) -> Iterator[str]:
    """Hold a lock file, which the system lets go of when the process dies; the name says which one on which machine."""
    name = f"{platform.node()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    with locked(_owner_lock(folder, name)):
        yield name


def is_alive(folder: Path, name: str) -> bool:
    """Whether an owner of runs still holds its lock."""
    return is_locked(_owner_lock(folder, name))


def _owner_lock(folder: Path, name: str) -> Path:
    return folder / "owners" / f"{name}.lock"


def without_seed(config: dict[str, Any]) -> dict[str, Any]:
    """What a candidate is, whichever seed it has."""
    return {**config, "training": {**config["training"], "seed": 0}}


def _check_same(candidate: str, config: dict[str, Any], earlier: dict[str, Any] | None) -> None:
    if earlier is not None and without_seed(config) != without_seed(earlier):
        raise ConfigError(
            f"The study already has runs of a different candidate named '{candidate}'.",
            remedy="Give the changed candidate a new name; what was run stays as it was.",
        )


def execute(folder: Path, name: str, device: str, code: str) -> dict[str, Any]:
    """Bring one run to its outcome; going on where a killed process left off, doing nothing twice."""
    check_code(code)
    store = Store(folder)
    run, run_folder = store.run(name), folder / "runs" / name
    lock = folder / "owners" / f"run-{name}.lock"
    return once(run_folder / OUTCOME, lambda: _outcome(store, run, run_folder, device), lock)


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
    from crossfeed.evaluation.bundle import measure_bundle
    from crossfeed.model.world_model import WorldModel
    from crossfeed.training.run import train

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


def halve(
    store: Store, engine: Engine, candidates: Mapping[str, RunConfig], seeds: int, by: Score, fewest: int
) -> None:
    """Search by successive halving; killed at any moment, the same call goes on, by the rule that the ledger holds."""
    rule = {"candidates": list(candidates), "seeds": seeds, "fewest": fewest, "score": by}
    _record_rule(store, rule)
    among = list(candidates)
    for seed in range(seeds):
        plan_runs(store, {name: candidates[name] for name in among}, [seed], "search")
        search(store, engine)
        last = seed == seeds - 1
        among = _decide_rung(store, among, seed + 1, by, len(among) if last else max(fewest, (len(among) + 1) // 2))


def refuse_plain_search(store: Store) -> None:
    """A plain search after halving would give dropped candidates seeds that nobody compares them by."""
    if store.entries("halving"):
        raise ConfigError(
            "This study is searched by successive halving.",
            expected="crossfeed study search --halving, with the candidates and seeds it began with",
            remedy="Go on with --halving (or --planned, to finish what is planned).",
        )


def _record_rule(store: Store, rule: dict[str, Any]) -> None:
    """Write the rule down before the first run, or find it as it was written."""
    stated = [entry.content for entry in store.entries("halving")]
    if stated and stated[0] != rule:
        raise ConfigError(
            "The halving of this study began with other candidates or seeds.",
            expected=f"{stated[0]['seeds']} seeds for {', '.join(stated[0]['candidates'])}",
        )
    if not stated and any(run.stage == "search" for run in store.runs()):
        raise ConfigError(
            "Runs were planned before halving was stated.",
            expected="--halving from the first search on",
            remedy="Go on without --halving, or begin a new study.",
        )
    if not stated:
        store.record("halving", rule)


def _decide_rung(store: Store, among: Sequence[str], seeds: int, by: Score, keep: int) -> list[str]:
    """Who goes on; decided once, when all runs of the rung have their outcome."""
    for rung in store.entries("rung"):
        if rung.content["seeds"] == seeds:
            return [name for name in among if name not in rung.content["dropped"]]
    runs = [run for run in outcomes(store, ["search"]) if run.candidate in among and run.seed < seeds]
    order = [line.candidate for line in rank(runs, by)]
    content = {"seeds": seeds, "among": list(among), "order": order, "dropped": order[keep:]}
    with store.transaction() as connection:
        # Another search on this folder may have decided in the meantime, from the same runs and so the same way.
        if not any(entry.content["seeds"] == seeds for entry in ledger.entries(connection, "rung")):
            ledger.append(connection, "rung", content)
    return [name for name in among if name in order[:keep]]
