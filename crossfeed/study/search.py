"""Plan runs and bring them all to an outcome: resumable at any point, no run twice, none lost."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from crossfeed.configuration import override
from crossfeed.errors import ConfigError
from crossfeed.study.board import board
from crossfeed.study.engines import Engine
from crossfeed.study.owners import is_alive, owner
from crossfeed.study.score import RunOutcome
from crossfeed.study.store import UNFINISHED, Run, Store
from crossfeed.study.worker import COLLAPSED
from crossfeed.training.run_config import RunConfig


def plan(store: Store, candidates: Mapping[str, RunConfig], seeds: Iterable[int], stage: str) -> int:
    """Put every candidate with every seed on the list; a candidate that is there under another meaning is refused."""
    known = {run.candidate: run.config for run in store.runs()}
    runs: list[tuple[str, str, int, str, dict[str, Any]]] = []
    for candidate, config in candidates.items():
        for seed in seeds:
            resolved = override(config, {"training.seed": seed}).model_dump(mode="json")
            _check_same(candidate, resolved, known.get(candidate))
            runs.append((f"{candidate}-{seed}", candidate, seed, stage, resolved))
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


def _check_same(candidate: str, config: dict[str, Any], earlier: dict[str, Any] | None) -> None:
    if earlier is None:
        return
    one, two = ({**c, "training": {**c["training"], "seed": 0}} for c in (config, earlier))
    if one != two:
        raise ConfigError(
            f"The study already has runs of a different candidate named '{candidate}'.",
            remedy="Give the changed candidate a new name; what was run stays as it was.",
        )
