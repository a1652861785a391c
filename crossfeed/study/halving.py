"""Successive halving over seeds: everybody gets the first seed, the better half the second, and so on.

Every comparison is between completely trained runs with the same seeds. Halving over epochs would be cheaper still, but
it judges half-trained models, and what is compared here (teacher speed, loss weights, sizes) changes how fast a model
learns as much as how far it gets. What halving costs all the same: a candidate can be dropped for one unlucky seed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from crossfeed.errors import ConfigError
from crossfeed.jobs import Engine
from crossfeed.study.record import ledger
from crossfeed.study.record.outcomes import outcomes
from crossfeed.study.record.score import Score, rank
from crossfeed.study.record.store import Store
from crossfeed.study.search import plan_runs, search
from crossfeed.training.run_config import RunConfig


def halve(
    store: Store, engine: Engine, candidates: Mapping[str, RunConfig], seeds: int, by: Score, fewest: int
) -> None:
    """Run all rungs; killed at any moment, the same call goes on. The ledger holds the rule before its first run."""
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
