"""The second half: the one opening, the declared ablation and its opening, the released target, baselines."""

from crossfeed.demo.chapter import ChapterResult
from crossfeed.demo.paper.settings import BASELINES, REVIN
from crossfeed.demo.paper.source import NO_LOCK, PaperRun
from crossfeed.demo.results import TABLE, finished_rivals
from crossfeed.demo.selection import RELEASED, RESULT, SOURCE, STUDY, chosen_run, is_locked, opening
from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.compare import compare
from crossfeed.evaluation.baselines.official import find_clones
from crossfeed.files import write_json, write_sealed
from crossfeed.logs.table import Table
from crossfeed.study.record.declaration import CONDITION, declarations
from crossfeed.study.record.score import has_numbers
from crossfeed.study.record.store import source_tables
from crossfeed.training.run_config import RunConfig

NAME = "revin"
PURPOSE = f"declared: {NAME}"
SEALED, LATENT = "revin-sealed.json", "no_latent.json"


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
