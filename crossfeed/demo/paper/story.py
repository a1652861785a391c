"""The second half of the paper's procedure, and the order of all of it, from raw logs to the page.

The one opening, the declared ablation and its opening, the released target, baselines. The same command goes on
wherever it was stopped.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from crossfeed.demo.chapter import Chapter, ChapterResult, run_chapters, sole_worker
from crossfeed.demo.paper import source
from crossfeed.demo.paper.page import NUMBERS, REPORT, write_page
from crossfeed.demo.paper.settings import BASELINES, LATENT, NAME, PURPOSE, REVIN
from crossfeed.demo.paper.source import NO_LOCK, PaperRun
from crossfeed.demo.results import TABLE, finished_rivals
from crossfeed.demo.selection import RELEASED, RESULT, SOURCE, STUDY, chosen_run, is_locked, lock, make_logs, opening
from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.compare import compare
from crossfeed.evaluation.baselines.official import find_clones
from crossfeed.files import read_sealed, write_json, write_sealed
from crossfeed.logs.table import Table
from crossfeed.progress import console
from crossfeed.study.record.declaration import CONDITION, declarations
from crossfeed.study.record.score import has_numbers
from crossfeed.study.record.store import source_tables
from crossfeed.training.run_config import RunConfig

SEALED = "revin-sealed.json"


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
    """Every step in its order: what is decided on the source, then the lock, then what may look at the"""
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
        ("opening", "The sealed target is opened, once (Table 3)", open_target),
        ("revin", "RevIN, declared and paired by seed (App. H)", declare_revin),
        ("second_opening", "The second opening, if the declared condition holds", open_for_revin),
        ("release", "The target is released; the arms without the latent objective look at it", judge_no_latent),
        ("baselines", "What one would use instead, on the same windows (Fig. 6a)", baselines),
    ]
    if paper.settings.simulated:
        told.insert(0, ("logs", "Two simulated machines write their logs", _simulate))
    if paper.clones:
        names = sorted(find_clones(list(paper.clones)))
        told.append(("_".join(names), f"The official code: {', '.join(names)} (App. E)", official))
    return [Chapter(name, title, partial(work, paper)) for name, title, work in told]


def _simulate(paper: PaperRun) -> ChapterResult:
    return make_logs(paper.folder, paper.settings.extent.logs, paper.settings.simulator_seed)


def open_target(paper: PaperRun) -> ChapterResult:
    """The one opening of the locked model; few-shot, intervals over runs and command use are measured in it."""
    if not is_locked(paper.folder):
        return ChapterResult(NO_LOCK)
    if not (paper.folder / RESULT).exists():
        paper.study.unseal()
    found, name = opening(paper.folder), chosen_run(paper.folder)
    scores, interval = found["scores"], found["intervals"][name]["rmse"]
    told = f"{found['windows']:,} windows of {len(found['runs'])} runs: RMSE {scores[name]['rmse']:.3f}"
    if interval.get("low") is not None:
        told += f" ({interval['low']:.3f} to {interval['high']:.3f} over runs)"
    floors = ", ".join(f"{floor} {scores[floor]['rmse']:.3f}" for floor in scores if floor != name)
    shuffled = found["command_use"][name]["plans"]["shuffled"]["rmse_ratio"]["estimate"]
    return ChapterResult(f"{told}; {floors}; shuffled commands cost {shuffled:.3f}", (RESULT,))


def declare_revin(paper: PaperRun) -> ChapterResult:
    """The paired ablation, written down before it runs: the locked configuration with and without pure RevIN."""
    if not is_locked(paper.folder):
        return ChapterResult(NO_LOCK)
    study = paper.study
    if NAME not in [one.name for one in declarations(study.store)]:
        study.declare(NAME, REVIN, paper.settings.pairs)
    study.search(paper.engine)
    (line,) = [one for one in study.contrasts() if (one.contrast, one.metric, one.arm) == (NAME, "clean", "revin")]
    return ChapterResult(
        f"clean RMSE {line.difference:+.4f} over {line.seeds} pairs; condition: {CONDITION}", (f"{STUDY}/study.db",)
    )


def open_for_revin(paper: PaperRun) -> ChapterResult:
    """The second opening, if the declared condition holds on the source; a refusal is a result too."""
    if not is_locked(paper.folder):
        return ChapterResult(NO_LOCK)
    study = paper.study
    if not [entry for entry in study.store.entries("opening result") if entry.content["purpose"] == PURPOSE]:
        try:
            study.unseal(NAME)
        except ConfigError as refusal:
            write_json(paper.folder / SEALED, refusal.found)
            return ChapterResult(f"stays sealed for it: {refusal.found}", (SEALED,))
    (entry,) = [one for one in study.store.entries("opening result") if one.content["purpose"] == PURPOSE]
    file = f"{STUDY}/results/{entry.content['file']}"
    return ChapterResult(f"the condition holds; every run of both arms was judged ({entry.content['file']})", (file,))


def judge_no_latent(paper: PaperRun) -> ChapterResult:
    """Hand the target back, and judge on it the arms without the latent objective, which were trained before."""
    from crossfeed.evaluation.judge import evaluate_target
    from crossfeed.model.world_model import WorldModel

    if not is_locked(paper.folder):
        return ChapterResult(NO_LOCK)
    study = paper.study
    if not (paper.folder / RELEASED).exists():
        study.release((paper.folder / RELEASED).parent)
    runs = [run for run in study.store.runs() if run.stage == "ready no-latent" and has_numbers(run)]
    models = {
        run.name: (
            WorldModel.load(study.store.folder / "runs" / run.name / "model.safetensors"),
            RunConfig.model_validate(run.config),
        )
        for run in runs
    }
    found = evaluate_target(models, source_tables(study.store), [Table.read(paper.folder / RELEASED)])
    write_sealed(paper.folder / LATENT, found.to_dict())
    errors = ", ".join(f"{name.partition('.')[2]} {found.scores[name]['rmse']:.3f}" for name in found.models)
    return ChapterResult(f"target RMSE after the release, so for orientation: {errors}", (RELEASED, LATENT))


def baselines(paper: PaperRun) -> ChapterResult:
    """The forecasters that the paper names, on the same windows as everybody."""
    return _compare(paper, BASELINES)


def official(paper: PaperRun) -> ChapterResult:
    """The official code of the clones at hand, beside the baselines that are there already."""
    return _compare(paper, (*BASELINES, *find_clones(list(paper.clones))))


def _compare(paper: PaperRun, models: tuple[str, ...]) -> ChapterResult:
    folder, extent = paper.folder, paper.settings.extent
    target = Table.read(folder / RELEASED) if is_locked(folder) else None
    compare(
        [Table.read(folder / SOURCE)], target, folder / "comparison", models=",".join(models),
        seeds=extent.baseline_seeds, budget=extent.budget, size=paper.settings.size, repositories=paper.clones,
        config=paper.study.config, device=paper.device, jobs=paper.jobs,
    )  # fmt: skip
    judged = "source" if target is None else "target"
    means = {name: mean[f"{judged}.rmse"] for name, mean in finished_rivals(folder).items()}
    return ChapterResult(f"RMSE on the {judged}: {', '.join(f'{n} {v:.3f}' for n, v in means.items())}", (TABLE,))
