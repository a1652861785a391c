"""Confirmation (Algorithm 2): seeds are added until the leader is the same at two consecutive seed counts.

They are added, too, until there are as many as the lock asks for: a search may have had fewer.
"""

from collections.abc import Sequence

from crossfeed.errors import ConfigError
from crossfeed.jobs import Engine
from crossfeed.study.record.confirmation import CONFIRMATION, Confirmation
from crossfeed.study.record.outcomes import pool
from crossfeed.study.record.rules import score_of
from crossfeed.study.record.score import RunOutcome, Score, rank
from crossfeed.study.record.store import Store
from crossfeed.study.search import plan_runs, search
from crossfeed.training.run_config import RunConfig

FINALISTS = 5
LEADERS = 2


def finalists(runs: Sequence[RunOutcome], by: Score) -> tuple[str, ...]:
    """The best candidates of the discovery stage that have a valid run."""
    return tuple(line.candidate for line in rank(runs, by) if line.seeds)[:FINALISTS]


def leader_at(runs: Sequence[RunOutcome], among: Sequence[str], seeds: int, by: Score) -> str:
    """Who leads the finalists when each counts with its first `seeds` seeds."""
    counted = [run for run in runs if run.candidate in among and run.seed < seeds]
    return rank(counted, by)[0].candidate


def confirm(store: Store, engine: Engine, most_seeds: int) -> Confirmation:
    """Add a seed to the finalists, then to the leaders, until the leader stands; what was found goes to the ledger."""
    protocol = store.protocol()
    by, enough = score_of(protocol), protocol["minimum_seeds"]
    discovery = pool(store, ["search"])
    if not discovery:
        raise ConfigError("There is nothing to confirm yet.", remedy="Run crossfeed study search first.")
    seeds = 1 + max(run.seed for run in discovery)
    among = finalists(discovery, by)
    if not among:
        raise ConfigError("Every run of the search is invalid, so there is nobody to confirm.")
    configs = {run.candidate: RunConfig.model_validate(run.config) for run in store.runs() if run.stage == "search"}
    found = Confirmation(among, {seeds: leader_at(discovery, among, seeds, by)}, by)
    while (seeds < enough or not found.stable) and seeds < most_seeds:
        growing = among if len(found.leaders) == 1 else _leading(pool(store), among, by)
        plan_runs(store, {name: configs[name] for name in growing}, [seeds], "confirm")
        search(store, engine)
        seeds += 1
        found.leaders[seeds] = leader_at(pool(store), among, seeds, by)
    store.record(CONFIRMATION, found.content())
    return found


def _leading(runs: Sequence[RunOutcome], among: Sequence[str], by: Score) -> tuple[str, ...]:
    own = [run for run in runs if run.candidate in among]
    return tuple(line.candidate for line in rank(own, by))[:LEADERS]
