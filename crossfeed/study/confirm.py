"""Confirmation (Algorithm 2): seeds are added until the leader is the same at two consecutive seed counts.

They are added, too, until the leader has as many valid ones as the lock asks for: a search may have had fewer.
"""

from collections.abc import Sequence

from crossfeed.errors import ConfigError
from crossfeed.jobs import Engine
from crossfeed.study.record.declaration import CONFIRMATION, PASSED_OVER, Confirmation, passed_over
from crossfeed.study.record.lockable import blemishes, refusals
from crossfeed.study.record.score import RunOutcome, Score, pool, rank, ranked, rules_of
from crossfeed.study.record.store import Store
from crossfeed.study.search import plan_runs, search
from crossfeed.training.run_config import RunConfig

FINALISTS = 5
LEADERS = 2


def finalists(runs: Sequence[RunOutcome], by: Score, without: Sequence[str] = ()) -> tuple[str, ...]:
    """The best ranked candidates of the discovery stage."""
    return tuple(line.candidate for line in ranked(rank(runs, by)) if line.candidate not in without)[:FINALISTS]


def leader_at(runs: Sequence[RunOutcome], among: Sequence[str], seeds: int, by: Score) -> str:
    """Who leads the finalists when each counts with its first `seeds` seeds."""
    return rank(_counted(runs, among, seeds), by)[0].candidate


def confirm(store: Store, engine: Engine, most_seeds: int, pass_over: str | None = None) -> Confirmation:
    """Add a seed to the finalists, then to the leaders, until the leader stands; what was found goes to the ledger.

    The paper's first leader is that of all candidates, measured in their pool; elsewhere it is the finalists' own, so
    that nothing but the added seeds can change it. `pass_over` takes a leader out of the contest that no further seed
    can make lockable.
    """
    protocol = store.protocol()
    rules, enough = rules_of(protocol["name"]), protocol["minimum_seeds"]
    discovery = pool(store, ["search"])
    if not discovery:
        raise ConfigError("There is nothing to confirm yet.", remedy="Run crossfeed study search first.")
    if pass_over is not None:
        _pass_over(store, pass_over)
    by, out, seeds = rules.score, passed_over(store), 1 + max(run.seed for run in discovery)
    among = finalists(discovery, by, out)
    if not among:
        raise ConfigError(
            "There is nobody left to confirm: every candidate of the search is invalid or was passed over.",
            remedy="Search on with further candidates (crossfeed study search --candidates YAML) or with more seeds "
            f"(--seeds {seeds + 1}).",
        )
    configs = {run.candidate: RunConfig.model_validate(run.config) for run in store.runs() if run.stage == "search"}
    first = among[0] if rules.first_leader == "pool" else leader_at(discovery, among, seeds, by)
    found = Confirmation(among, {seeds: first}, by)
    while seeds < most_seeds and _goes_on(found, pool(store), enough, rules.invalid_seeds_block):
        before = seeds
        seeds = min(most_seeds, seeds + (1 if len(found.leaders) == 1 else rules.seeds_after_refusal))
        growing = among if len(found.leaders) == 1 else _contestants(found, pool(store), before)
        plan_runs(store, {name: configs[name] for name in growing}, range(seeds), "confirm")
        search(store, engine)
        found.leaders[seeds] = leader_at(pool(store), among, seeds, by)
    store.record(CONFIRMATION, found.content())
    return found


def _goes_on(found: Confirmation, runs: Sequence[RunOutcome], enough: int, invalid_seeds_block: bool) -> bool:
    """Whether a further seed can bring a lock nearer."""
    if not found.stable:
        return True
    counted = _counted(runs, found.finalists, max(found.leaders))
    line = next(line for line in rank(counted) if line.candidate == found.leader)
    return line.seeds < enough and not blemishes(line, invalid_seeds_block)


def _contestants(found: Confirmation, runs: Sequence[RunOutcome], seeds: int) -> list[str]:
    """Who led at the last two seed counts; where it is one candidate, also the second of the ranking."""
    lines = rank(_counted(runs, found.finalists, seeds), found.score)
    last = [found.leaders[count] for count in sorted(found.leaders, reverse=True)[:LEADERS]]
    return list(dict.fromkeys([*last, *(line.candidate for line in lines)]))[:LEADERS]


def _counted(runs: Sequence[RunOutcome], among: Sequence[str], seeds: int) -> list[RunOutcome]:
    return [run for run in runs if run.candidate in among and run.seed < seeds]


def _pass_over(store: Store, candidate: str) -> None:
    """Write down that a confirmed leader is out, if no further seed could make it lockable."""
    if candidate in passed_over(store):
        return
    reasons = [refusal.reason for refusal in refusals(store) if refusal.passes_over == candidate]
    if not reasons:
        raise ConfigError(
            f"'{candidate}' cannot be passed over.",
            expected="the confirmed leader, where the lock is refused for something that further seeds do not change",
            remedy="crossfeed study status says who leads and why the study cannot be locked.",
        )
    store.record(PASSED_OVER, {"candidate": candidate, "reasons": reasons})
