"""Take away weights that no further step of the protocol can ask for; the ledger says whose, and keeps their hashes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crossfeed.errors import ConfigError
from crossfeed.study.record import ledger
from crossfeed.study.record.outcomes import dropped
from crossfeed.study.record.store import UNFINISHED, Run, Store

WEIGHTS_SUFFIX = ".safetensors"
CHOSEN_FROM = ("search", "confirm")


@dataclass(frozen=True, slots=True)
class Pruning:
    """Whose weights went, and how many bytes they had."""

    runs: tuple[str, ...]
    size: int


def prune(store: Store) -> Pruning:
    """Remove the weights of every run that can no longer be locked; declared ablations keep theirs for the opening."""
    history = store.entries()
    locks = [entry.content["run"] for entry in history if entry.kind == "lock"]
    before, gone = pruned(history), dropped(store)
    runs = [run.name for run in store.runs() if _is_out(run, locks, gone)]
    if not runs:
        raise ConfigError(
            "Any run may still be locked, so all weights are needed.",
            expected="a lock, or candidates that halving has dropped",
            remedy="Lock first; crossfeed study export --weights none makes a small archive at any time.",
        )
    # Written down first: killed in between, a study has weights that it said it might lack, and not the other way.
    if fresh := [name for name in runs if name not in before]:
        store.record("pruning", {"runs": fresh})
    files = [path for name in runs for path in (store.folder / "runs" / name).glob(f"*{WEIGHTS_SUFFIX}")]
    size = sum(path.stat().st_size for path in files)
    for path in files:
        path.unlink()
    return Pruning(tuple(runs), size)


def pruned(history: Sequence[ledger.Entry]) -> set[str]:
    """Runs whose weights may be missing without anything being wrong."""
    return {name for entry in history if entry.kind == "pruning" for name in entry.content["runs"]}


def _is_out(run: Run, locks: Sequence[str], gone: Mapping[str, int]) -> bool:
    if run.stage not in CHOSEN_FROM or run.status in UNFINISHED:
        return False
    return run.candidate in gone or bool(locks and run.name not in locks)
