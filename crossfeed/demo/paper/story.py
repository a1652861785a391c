"""The order of the paper's procedure, from raw logs to the page; the same command goes on wherever it was stopped."""

from collections.abc import Callable
from functools import partial
from typing import Any

from crossfeed.demo.chapter import Chapter, ChapterResult, run_chapters, sole_worker
from crossfeed.demo.paper import source, target
from crossfeed.demo.paper.page import NUMBERS, REPORT, write_page
from crossfeed.demo.paper.source import PaperRun
from crossfeed.demo.selection import is_locked, lock, make_logs
from crossfeed.evaluation.baselines.official import find_clones
from crossfeed.files import read_sealed
from crossfeed.progress import console


def run_paper(paper: PaperRun) -> dict[str, Any]:
    """Work through every chapter that is not done yet, and write the page; gives its numbers as plain data."""
    folder, settings = paper.folder, paper.settings
    find_clones(list(paper.clones))  # a folder that is no clone is refused before hours of work
    with sole_worker(folder, "paper", settings, "a run through the paper"):
        parts = chapters(paper)
        seconds = run_chapters(folder, parts)
        written = write_page(folder, settings, [(part.name, part.title) for part in parts])
    ended = f"The end, after {seconds:.0f} s." if seconds >= 1 else "The end; nothing was left to do."
    console().print(f"\n{ended} {written.answer}")
    return {
        "report": str(folder / REPORT),
        "answer": written.answer,
        "locked": is_locked(folder),
        "numbers": read_sealed(folder / NUMBERS),
    }


def chapters(paper: PaperRun) -> list[Chapter]:
    """Every step in its order: what is decided on the source, then the lock, then what may look at the target."""
    seeds = paper.settings.seeds
    told: list[tuple[str, str, Callable[[PaperRun], ChapterResult]]] = [
        ("tables", "Logs become tables by the paper's rule; the audit looks at both", source.tables),
        ("seal", "The target is sealed", source.seal),
        ("estimate", "Some steps are timed: how long it will take", source.estimate),
        ("search", f"Twenty candidates x {seeds} seeds compete on the source alone (App. A to C)", source.search),
        ("confirm", "More seeds, until the leader stands and has five", source.confirm),
        ("lock", "The leader is locked", lambda paper: lock(paper.folder)),
        ("initialisation", "Scratch, pretrained body, complete checkpoint (Table 2a)", source.initialisation),
        ("ablations", "One factor at a time (Table 2b)", source.ablations),
        ("no_latent", "The locked configuration without the latent objective", source.no_latent),
        ("opening", "The sealed target is opened, once (Table 3)", target.open_target),
        ("revin", "RevIN, declared and paired by seed (App. H)", target.declare_revin),
        ("second_opening", "The second opening, if the declared condition holds", target.open_for_revin),
        ("release", "The target is released; the arms without the latent objective look at it", target.judge_no_latent),
        ("baselines", "What one would use instead, on the same windows (Fig. 6a)", target.baselines),
    ]
    if paper.settings.simulated:
        told.insert(0, ("logs", "Two simulated machines write their logs", _simulate))
    if paper.clones:
        names = sorted(find_clones(list(paper.clones)))
        told.append(("_".join(names), f"The official code: {', '.join(names)} (App. E)", target.official))
    return [Chapter(name, title, partial(work, paper)) for name, title, work in told]


def _simulate(paper: PaperRun) -> ChapterResult:
    return make_logs(paper.folder, paper.settings.extent.logs, paper.settings.simulator_seed)
