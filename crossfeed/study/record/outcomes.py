"""What runs leave behind, and what they bring to the ranking of candidates or a comparison of arms.

In a search by halving some candidates were dropped on the way; without halving all stayed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from crossfeed.atomic import file_hash
from crossfeed.study.record.score import CandidateScore, RunOutcome, Score, rank
from crossfeed.study.record.store import Run, Store

OUTCOME = "outcome.json"
# How the reason begins when a run is invalid because its latents collapsed, although it forecasts.
COLLAPSED = "latents collapsed"


def outcomes(store: Store, stages: Iterable[str] | None = None) -> list[RunOutcome]:
    """What the finished runs bring to the ranking."""
    wanted = None if stages is None else set(stages)
    return [
        outcome_of(run)
        for run in store.runs()
        if run.status in ("finished", "invalid") and (wanted is None or run.stage in wanted)
    ]


def has_numbers(run: Run) -> bool:
    """Whether a run counts where arms are compared: it finished, or nothing but the latent gate speaks against it.

    Leaving a flagged run out would flatter the arm that collapses, and the paper scored all of its flagged runs.
    """
    return "bundle" in run.outcome and (run.status == "finished" or bool(flag_of(run)))


def flag_of(run: Run) -> str:
    """Why the latent gate flagged a run, at the kept pretraining epoch or after fine-tuning; empty if it did not."""
    invalid = str(run.outcome.get("invalid") or "")
    if invalid:
        return invalid if invalid.startswith(COLLAPSED) else ""
    return "; ".join(run.outcome.get("bundle", {}).get("collapse_reasons") or [])


def flags_of(runs: Iterable[Run]) -> dict[str, str]:
    """Runs against which the latent gate speaks, with its reasons."""
    return {run.name: flag for run in runs if (flag := flag_of(run))}


def outcome_of(run: Run) -> RunOutcome:
    """A finished run as the score sees it."""
    if run.status == "invalid":
        return RunOutcome(run.candidate, run.seed, {}, 0.0, 0.0, invalid=run.outcome["invalid"])
    bundle = run.outcome["bundle"]
    return RunOutcome(
        candidate=run.candidate,
        seed=run.seed,
        components=bundle["components"],
        ssl_scale_free=bundle["ssl_scale_free"],
        command_ratio=bundle["command_ratio"],
        collapsed=bool(bundle["collapsed"]),
    )


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


def artefacts(run_folder: Path) -> dict[str, str]:
    """SHA-256 of every file a run leaves behind, apart from its log and its lock."""
    files = (path for path in sorted(run_folder.iterdir()) if path.is_file() and not path.name.startswith("."))
    return {path.name: file_hash(path) for path in files if path.name not in (OUTCOME, "log.txt")}
