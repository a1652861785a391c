"""What a run leaves behind, and what it brings to a ranking or a comparison of arms."""

from collections.abc import Iterable
from pathlib import Path

from crossfeed.atomic import file_hash
from crossfeed.study.record.score import RunOutcome
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


def artefacts(run_folder: Path) -> dict[str, str]:
    """SHA-256 of every file a run leaves behind, apart from its log and its lock."""
    files = (path for path in sorted(run_folder.iterdir()) if path.is_file() and not path.name.startswith("."))
    return {path.name: file_hash(path) for path in files if path.name not in (OUTCOME, "log.txt")}
