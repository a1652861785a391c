"""Plan runs and bring them all to an outcome: resumable at any point, no run twice, none lost."""

import os
import platform
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crossfeed.configuration import override
from crossfeed.errors import ConfigError
from crossfeed.locks import is_locked, locked
from crossfeed.study.board import board
from crossfeed.study.engines import Engine
from crossfeed.study.record.store import UNFINISHED, Store, run_name
from crossfeed.training.run_config import RunConfig


def plan(store: Store, candidates: Mapping[str, RunConfig], seeds: Iterable[int], stage: str) -> int:
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
    with owner(store.folder) as me, board(store) as show:

        def next_run() -> str | None:
            claimed = store.claim(me)
            return claimed.name if claimed else None

        try:
            while True:
                for run in store.runs("running"):
                    if not is_alive(store.folder, run.owner):
                        store.release(run.name)
                for name, outcome in engine.execute(store.folder, next_run):
                    store.finish(name, "invalid" if outcome["invalid"] else "finished", outcome)
                    show(name)
                if not any(run.status in UNFINISHED for run in store.runs()):
                    return
                time.sleep(0.5)
        finally:
            for run in store.runs("running"):
                if run.owner == me:
                    store.release(run.name)


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
