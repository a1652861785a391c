"""Who stayed in a search by halving and who was dropped, and the ranking that follows; without halving all stayed."""

from collections.abc import Sequence
from dataclasses import replace

from crossfeed.study.record.outcomes import outcomes
from crossfeed.study.record.score import CandidateScore, RunOutcome, Score, rank
from crossfeed.study.record.store import Store


def dropped(store: Store) -> dict[str, int]:
    """Candidates that were dropped, with the number of seeds they had then; empty without halving."""
    return {name: rung.content["seeds"] for rung in store.entries("rung") for name in rung.content["dropped"]}


def pool(store: Store, stages: Sequence[str] = ("search", "confirm")) -> list[RunOutcome]:
    """The outcomes that may be compared with each other: those of candidates that were never dropped."""
    gone = dropped(store)
    return [run for run in outcomes(store, stages) if run.candidate not in gone]


def ranking(store: Store, by: Score, stages: Sequence[str] = ("search", "confirm")) -> list[CandidateScore]:
    """Those that stayed, by their full seeds; below them the dropped ones, each as it stood in the rung that ended it.

    The scores of different rungs are standardised in different pools and stand beside each other for information only.
    """
    lines = rank(pool(store, stages), by)
    rungs = [entry.content for entry in store.entries("rung")]
    every = outcomes(store, ["search"]) if rungs else []
    for rung in reversed(rungs):
        then = [run for run in every if run.candidate in rung["among"] and run.seed < rung["seeds"]]
        lines += [
            replace(line, dropped_after=rung["seeds"]) for line in rank(then, by) if line.candidate in rung["dropped"]
        ]
    return lines
