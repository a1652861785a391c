"""Who stayed in a search by halving and who was dropped, and the ranking that follows; without halving all stayed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from crossfeed.study.record import ledger
from crossfeed.study.record.outcomes import outcomes
from crossfeed.study.record.score import CandidateScore, RunOutcome, Score, rank
from crossfeed.study.record.store import Store


def dropped(store: Store) -> dict[str, int]:
    """Candidates that were dropped, with the number of seeds they had then; empty without halving."""
    return {name: rung["seeds"] for rung in entries(store, "rung") for name in rung["dropped"]}


def pool(store: Store, stages: Sequence[str] = ("search", "confirm")) -> list[RunOutcome]:
    """The outcomes that may be compared with each other: those of candidates that were never dropped."""
    gone = dropped(store)
    return [run for run in outcomes(store, stages) if run.candidate not in gone]


def ranking(store: Store, by: Score, stages: Sequence[str] = ("search", "confirm")) -> list[CandidateScore]:
    """Those that stayed, by their full seeds; below them the dropped ones, each as it stood in the rung that ended it.

    The scores of different rungs are standardised in different pools and stand beside each other for information only.
    """
    lines = rank(pool(store, stages), by)
    rungs = entries(store, "rung")
    every = outcomes(store, ["search"]) if rungs else []
    for rung in reversed(rungs):
        then = [run for run in every if run.candidate in rung["among"] and run.seed < rung["seeds"]]
        lines += [
            replace(line, dropped_after=rung["seeds"]) for line in rank(then, by) if line.candidate in rung["dropped"]
        ]
    return lines


def entries(store: Store, kind: str) -> list[dict[str, Any]]:
    """What the ledger holds of one kind, in order."""
    with store.reading() as connection:
        return [entry.content for entry in ledger.entries(connection, kind)]
