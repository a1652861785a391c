"""Recompute everything a study claims, here or from one archive, and list every place where it is not what it was.

What this can prove: nothing recorded was edited, removed or reordered since it was written, as long as the head hash
you kept elsewhere is still in the ledger. What it cannot: that nobody looked at the target outside this software, or
that a whole study was not rerun from scratch until it pleased. Keep the head hash where others can see it.
"""

import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from crossfeed.configuration import leaves
from crossfeed.errors import ConfigError, CrossfeedError, StorageError
from crossfeed.files import CHECKSUM, __version__, atomic_file, file_hash, read_json
from crossfeed.study import vault
from crossfeed.study.record import ledger
from crossfeed.study.record.declaration import Declaration
from crossfeed.study.record.lockable import LOCK, holds
from crossfeed.study.record.score import OUTCOME, artefacts
from crossfeed.study.record.store import Store, code_hash, run_name
from crossfeed.training.folder import saved_config

WEIGHTS_SUFFIX = ".safetensors"
Weights = Literal["all", "locked", "none"]
# What an archive holds: tables and vault stay at home, locks and logs are of no use elsewhere.
_KEPT = ("runs", "results", "lock.json")


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found; `remarks` are worth knowing but break nothing."""

    head: str
    entries: int
    problems: tuple[str, ...]
    remarks: tuple[str, ...]


def verify(store: Store, whole: bool = True) -> Verification:
    """Check ledger, protocol, runs, artefacts, lock and results, and of a whole study also the tables and the vault.

    What is not whole is an archive: it has no data and may lack weights, whose hashes the ledger keeps.
    """
    with store.reading() as connection:
        problems = ledger.broken_links(connection)
        head = ledger.head(connection)
        (count,) = connection.execute("SELECT count(*) FROM ledger").fetchone()
        protocol = [content for (content,) in connection.execute("SELECT content FROM protocol")]
        first = connection.execute("SELECT content FROM ledger WHERE kind = 'init'").fetchall()
        if [content for (content,) in first] != protocol:
            problems.append("the protocol is not the one in the first ledger entry")
        if problems:
            rest = "the rest was not checked: what it would be compared with cannot be trusted"
            return Verification(head, count, tuple(problems), (rest,))
        history = ledger.entries(connection)
    problems += _runs(store, history, whole) + _lock(store, history) + _results(store, history)
    if whole:
        problems += vault.damaged(store) + _tables(store)
    return Verification(head, count, tuple(problems), tuple(_remarks(store, history, whole)))


def _tables(store: Store) -> list[str]:
    """The study's copies of its source tables, byte for byte."""
    problems = []
    for source in store.protocol()["sources"]:
        path = store.folder / "tables" / source["name"]
        if not path.is_file() or file_hash(path) != source["sha256"]:
            problems.append(f"tables/{source['name']} is missing or was changed")
    return problems


def _runs(store: Store, history: list[ledger.Entry], whole: bool) -> list[str]:
    """Run table against ledger, files against hashes."""
    planned: dict[str, Any] = {}
    stages: dict[str, list[str]] = {}
    for entry in history:
        if entry.kind == "plan":
            planned |= entry.content["runs"]
            stages |= {name: [stage] for name, stage in entry.content.get("stages", {}).items()}
    known_stages = _stages(history)
    recorded = {entry.content["name"]: entry.content for entry in history if entry.kind == "run"}
    try:
        runs = {run.name: run for run in store.runs()}
    except StorageError:
        return ["the run table holds something that is no JSON"]
    problems = [f"run '{name}' is in the ledger but not in the run table" for name in planned.keys() - runs.keys()]
    for name, run in runs.items():
        if planned.get(name) != run.config:
            problems.append(f"the configuration of run '{name}' is not the planned one")
        if name != run_name(run.candidate, run.seed) or run.stage not in stages.get(name, known_stages):
            problems.append(f"the candidate, the seed or the stage of run '{name}' is not the planned one")
        if (run.status in ("finished", "invalid")) != (name in recorded):
            problems.append(f"run '{name}' is '{run.status}' in the run table, which the ledger does not confirm")
        if name in recorded and (run.status, run.outcome) != (recorded[name]["status"], recorded[name]["outcome"]):
            problems.append(f"the outcome of run '{name}' is not the recorded one")
        if name in recorded:
            problems += _trained_otherwise(store.folder / "runs" / name, run.config)
            problems += _files(store.folder / "runs" / name, recorded[name]["outcome"], not whole)
    return problems


def _stages(history: list[ledger.Entry]) -> list[str]:
    """Every stage this history knows of: what plans said before they named the stage of each run."""
    ready = [f"ready {entry.content['kind']}" for entry in history if entry.kind == "ready"]
    declared = [Declaration.recorded(entry.content).stage for entry in history if entry.kind == "declaration"]
    return ["search", "confirm", *ready, *declared]


def _trained_otherwise(run_folder: Path, planned: dict[str, Any]) -> list[str]:
    """What a run says of itself against its plan; what a plan leaves open, training fills in."""
    try:
        told = leaves(saved_config(run_folder) or planned)
    except CrossfeedError as error:
        return [error.found]
    wanted = leaves(planned)
    settled = {name for name, value in wanted.items() if value is not None}
    unasked = {"training.patience"} if wanted.get("training.finetune_epochs") is None else set()
    names = sorted(
        name for name in (settled | (told.keys() - wanted.keys())) - unasked if told.get(name) != wanted.get(name)
    )
    return [f"{run_folder.name} was not trained as planned: {', '.join(names)}"] if names else []


def _files(run_folder: Path, outcome: dict[str, Any], may_lack_weights: bool) -> list[str]:
    if not run_folder.is_dir():
        return [f"the folder of run '{run_folder.name}' is missing"]
    found, wanted = artefacts(run_folder), outcome["artefacts"]
    left_out = _left_out(run_folder, outcome) if may_lack_weights else []
    wanted = {name: digest for name, digest in wanted.items() if name not in left_out}
    changed = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    problems = [f"{run_folder.name}/{name} is missing, new or was changed" for name in changed]
    if not _says(run_folder / OUTCOME, outcome):
        problems.append(f"{run_folder.name}/{OUTCOME} is not the recorded outcome")
    return problems


def _says(path: Path, outcome: dict[str, Any]) -> bool:
    try:
        content = read_json(path)
        content.pop(CHECKSUM, None)  # the ledger's own hash says more than a checksum beside the numbers
        return content == outcome
    except StorageError:
        return False


def _left_out(run_folder: Path, outcome: dict[str, Any]) -> list[str]:
    """Weights that a run had and that are not here."""
    weights = [name for name in outcome["artefacts"] if name.endswith(WEIGHTS_SUFFIX)]
    return [name for name in weights if not (run_folder / name).exists()]


def _lock(store: Store, history: list[ledger.Entry]) -> list[str]:
    recorded = [entry for entry in history if entry.kind == "lock"]
    if not recorded:
        return [f"there is a {LOCK} but no lock in the ledger"] if (store.folder / LOCK).exists() else []
    wanted = {**recorded[-1].content, "entry": recorded[-1].hash}
    return [] if holds(store.folder / LOCK, wanted) else [f"{LOCK} is not the lock in the ledger"]


def _results(store: Store, history: list[ledger.Entry]) -> list[str]:
    problems = []
    for entry in history:
        if entry.kind == "opening result":
            path = store.folder / "results" / entry.content["file"]
            if not path.is_file() or file_hash(path) != entry.content["sha256"]:
                problems.append(f"results/{entry.content['file']} is missing or was changed")
    return problems


def _remarks(store: Store, history: list[ledger.Entry], whole: bool) -> list[str]:
    began = store.protocol()
    remarks = []
    made = [entry.content for entry in history if entry.kind == "run"]
    runs = [] if whole else made
    without = [run["name"] for run in runs if _left_out(store.folder / "runs" / run["name"], run["outcome"])]
    if without:
        remarks.append(f"the weights of {len(without)} runs are not in the archive; the ledger keeps their hashes")
    if began["crossfeed"] != __version__:
        remarks.append(f"the study began with crossfeed {began['crossfeed']}, this is {__version__}")
    if began["code"] != code_hash():
        remarks.append("the package's source files are not those the study began with")
    others = [run["name"] for run in made if run["outcome"].get("code", began["code"]) != began["code"]]
    if others:
        remarks.append(f"{len(others)} runs were made by other source files than those the study began with")
    if began["targets_kept_outside"]:
        remarks.append("a copy of the target tables stayed outside the vault")
    remarks += [f"the target was released on {entry.time}" for entry in history if entry.kind == "release"]
    return remarks


def export(store: Store, archive: Path, weights: Weights = "all") -> Path:
    """Write the archive; the database is copied as it is after everything in its log has been folded in.

    Weights are nearly all of its size: it can hold those of every run, of the locked one or none.
    """
    if weights not in get_args(Weights):
        raise ConfigError(f"An archive cannot hold the weights '{weights}'.", expected=", ".join(get_args(Weights)))
    with store.transaction() as connection:
        connection.execute("SELECT 1")
    with store.reading() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    locked = [entry.content["run"] for entry in store.entries("lock")]

    def wanted(item: tarfile.TarInfo) -> tarfile.TarInfo | None:
        path = Path(item.name)
        kept = weights == "all" or (weights == "locked" and path.parent.name in locked)
        return item if kept or path.suffix != WEIGHTS_SUFFIX else None

    with atomic_file(archive) as temporary, tarfile.open(temporary, "w:gz") as tar:
        tar.add(store.path, "study/study.db")
        for name in _KEPT:
            if (store.folder / name).exists():
                tar.add(store.folder / name, f"study/{name}", filter=wanted)
    return archive


def verify_anything(path: Path) -> Verification:
    """Check a study folder whole, or everything that is in an exported archive."""
    if not path.is_file():
        return verify(Store(path))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with tarfile.open(path) as tar:
                tar.extractall(scratch, filter="data")
        except (OSError, EOFError, tarfile.TarError) as error:
            raise StorageError(f"The archive {path} cannot be read: {error}.") from error
        return verify(Store(Path(scratch) / "study"), whole=False)
