"""May the study be locked? Every condition of Algorithm 2, one by one; and is a lock still the recorded one?"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossfeed.study.record.declaration import CONFIRMATION, Confirmation, passed_over
from crossfeed.study.record.score import CandidateScore, pool, rank, rules_of
from crossfeed.study.record.store import UNFINISHED, Store, code_hash

LOCK = "lock.json"
MOST_SEEDS = 12


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a study cannot be locked, and what can be done about it.

    step: a command of `crossfeed study` and its options; empty where none helps, and `remedy` says what does.
    """

    reason: str
    step: tuple[str, ...] = ()
    remedy: str = ""
    passes_over: str | None = None

    def command(self, folder: Path | str) -> str:
        """The step as it is typed, or the remedy in words."""
        return f"crossfeed study {' '.join((self.step[0], str(folder), *self.step[1:]))}" if self.step else self.remedy

    def __str__(self) -> str:
        return f"{self.reason} ({self.command('STUDY')})"


def refusals(store: Store) -> list[Refusal]:
    """Every reason why the study cannot be locked now, each with a step out of it; empty when it can."""
    if store.entries("lock"):
        return [Refusal("the study is locked already; a lock is never revisited", ("unseal",))]
    confirmations = store.entries(CONFIRMATION)
    if not confirmations:
        return [Refusal("the confirmation stage was not run", ("confirm",))]
    found, reasons = Confirmation.recorded(confirmations[-1].content), []
    if found.leader in passed_over(store):
        return [Refusal(f"{found.leader} was passed over and the confirmation was not run again", ("confirm",))]
    protocol = store.protocol()
    rules, leader, minimum = rules_of(protocol["name"]), found.leader, protocol["minimum_seeds"]
    line = next(line for line in rank(pool(store)) if line.candidate == leader)
    if not found.stable:
        changed = f"the leader changed between the last two seed counts ({found.history})"
        reasons.append(_more_seeds(changed, max(found.leaders) + rules.seeds_after_refusal))
    if line.seeds < minimum:
        few = f"{leader} has {line.seeds} valid seeds, fewer than {minimum}"
        reasons.append(_more_seeds(few, max(found.leaders) + minimum - line.seeds))
    passing = ("confirm", "--pass-over", leader)
    reasons += [Refusal(each, passing, passes_over=leader) for each in blemishes(line, rules.invalid_seeds_block)]
    own, code = [run for run in store.runs() if run.candidate == leader], code_hash()
    others = [run.name for run in own if run.outcome.get("code", code) != code]
    if others:
        made = f"{len(others)} runs of {leader} were made by other source files ({', '.join(others)})"
        reasons.append(Refusal(made, remedy="lock with the version of crossfeed that made them, or begin a new study"))
    unfinished = [run.name for run in own if run.status in UNFINISHED]
    if unfinished:
        reasons.append(Refusal(f"{leader} has unfinished runs: {', '.join(unfinished)}", ("search", "--planned")))
    return reasons


def blemishes(line: CandidateScore, invalid_seeds_block: bool) -> list[str]:
    """What keeps a candidate from being locked whatever seeds are added."""
    bad = line.collapsed_seeds + (line.invalid_seeds if invalid_seeds_block else 0)
    found = [f"{line.candidate} collapsed or failed on {bad} of its seeds"] if bad else []
    if line.weak_seeds:
        found.append(f"{line.candidate} makes weak use of the commands on {line.weak_seeds} of its seeds")
    return found


def holds(path: Path, wanted: dict[str, Any]) -> bool:
    """Whether a JSON file is there and says exactly this."""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8")) == wanted)
    except (OSError, ValueError):
        return False


def _more_seeds(reason: str, needed: int) -> Refusal:
    return Refusal(reason, ("confirm", "--most-seeds", str(max(needed, MOST_SEEDS))))
