"""May the study be locked? Every condition of Algorithm 2, one by one; and is a lock still the recorded one?"""

import json
from pathlib import Path
from typing import Any

from crossfeed.study.record.confirmation import CONFIRMATION, Confirmation
from crossfeed.study.record.identity import code_hash
from crossfeed.study.record.outcomes import pool
from crossfeed.study.record.score import rank
from crossfeed.study.record.store import UNFINISHED, Store

LOCK = "lock.json"


def refusals(store: Store) -> list[str]:
    """Every reason why the study cannot be locked now; empty when it can."""
    if store.entries("lock"):
        return ["the study is locked already; a lock is never revisited"]
    confirmations = store.entries(CONFIRMATION)
    if not confirmations:
        return ["the confirmation stage was not run (crossfeed study confirm)"]
    found, reasons = Confirmation.recorded(confirmations[-1].content), []
    if not found.stable:
        changed = f"the leader changed between the last two seed counts ({found.history})"
        reasons.append(f"{changed}; confirm with more seeds")
    leader, minimum = found.leader, store.protocol()["minimum_seeds"]
    line = next(line for line in rank(pool(store)) if line.candidate == leader)
    if line.seeds < minimum:
        reasons.append(f"{leader} has {line.seeds} valid seeds, fewer than {minimum}")
    if line.invalid_seeds or line.collapsed_seeds:
        reasons.append(f"{leader} collapsed or failed on {line.invalid_seeds + line.collapsed_seeds} of its seeds")
    if line.weak_seeds:
        reasons.append(f"{leader} makes weak use of the commands on {line.weak_seeds} of its seeds")
    own, code = [run for run in store.runs() if run.candidate == leader], code_hash()
    others = [run.name for run in own if run.outcome.get("code", code) != code]
    if others:
        reasons.append(f"{len(others)} runs of {leader} were made by other source files ({', '.join(others)})")
    unfinished = [run.name for run in own if run.status in UNFINISHED]
    if unfinished:
        reasons.append(f"{leader} has unfinished runs: {', '.join(unfinished)}")
    return reasons


def holds(path: Path, wanted: dict[str, Any]) -> bool:
    """Whether a JSON file is there and says exactly this."""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8")) == wanted)
    except (OSError, ValueError):
        return False
