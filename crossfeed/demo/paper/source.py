"""The first half: logs, tables by the paper's rule, audits, the seal, and everything that is decided on the source."""

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from crossfeed.configuration import override
from crossfeed.demo.chapter import ChapterResult
from crossfeed.demo.paper.settings import MINIMUM_SEEDS, NO_LATENT, PaperSettings
from crossfeed.demo.selection import RAW, SOURCE, STUDY, TARGET, audited, begin_study, chosen_run, is_locked
from crossfeed.errors import ConfigError, LogError, TableError
from crossfeed.files import write_sealed
from crossfeed.jobs import LocalEngine
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Table
from crossfeed.study.confirm import FINALISTS, LEADERS
from crossfeed.study.ready import arms, plan_ready
from crossfeed.study.record.declaration import passed_over
from crossfeed.study.record.lockable import refusals
from crossfeed.study.record.store import source_tables
from crossfeed.study.study import Study
from crossfeed.training.loop import spoken
from crossfeed.training.run_config import RunConfig
from crossfeed.training.seeds import steps_in_epoch

ESTIMATE = "estimate.json"
NO_LOCK = "not done: the lock was refused, so the target stays sealed"
_DONE = f"{STUDY}/study.db"
# What the published sets hold; a folder with less is a download that was stopped.
_THWS_SESSIONS, _JOANNEUM_RUNS, _JOANNEUM_CYCLES = 62, 7, 1_503_915
_TIMED_STEPS = 12


@dataclass(frozen=True)
class PaperRun:
    """Where the work is done and with what."""

    folder: Path
    settings: PaperSettings
    jobs: int = 2
    device: str = "auto"
    clones: tuple[Path, ...] = ()

    @property
    def study(self) -> Study:
        return Study(self.folder / STUDY)

    @property
    def engine(self) -> LocalEngine:
        return LocalEngine(self.jobs, self.device)


def make_tables(paper: PaperRun) -> tuple[Table, Table]:
    """Both tables by the paper's rule, written into the folder; a table that was made before is taken as it is."""
    settings, tables = paper.settings, []
    for kind, logs, name in (("thws", settings.thws, SOURCE), ("joanneum", settings.joanneum, TARGET)):
        path = paper.folder / RAW / kind if logs is None else logs
        if path.suffix == ".parquet":
            table = Table.read(path)
        else:
            _refuse_partial(path)
            table = ingest(log_format_named(kind), path, rule="paper")
            if not settings.simulated:
                _refuse_incomplete(kind, path, table)
        table.write(paper.folder / name)
        tables.append(table)
    return tables[0], tables[1]


def tables(paper: PaperRun) -> ChapterResult:
    """Ingest both logs and audit the tables; what the audit finds is told, and the study decides what it refuses."""
    source, target = make_tables(paper)
    result = audited(paper.folder, source, target)
    counts = {name: table.manifest.get("counts", {}) for name, table in (("source", source), ("target", target))}
    shown = {"source": len(source.shown()), "target": len(target.shown())}
    write_sealed(paper.folder / "counts.json", {**counts, "sensors": shown})
    return replace(result, made=(*result.made, "counts.json"))


def seal(paper: PaperRun) -> ChapterResult:
    """Begin the study by the paper's protocol; from here on nothing can read the target."""
    settings = paper.settings
    return begin_study(
        paper.folder, lambda: make_tables(paper), protocol="paper", size=settings.size,
        settings=settings.extent.settings, minimum_seeds=MINIMUM_SEEDS,
    )  # fmt: skip


def estimate(paper: PaperRun) -> ChapterResult:
    """Time a short run of the locked configuration on this machine, and multiply by the runs to come."""
    study = paper.study
    seconds, runs = _seconds_per_run(paper, study), planned_runs(paper.settings, study.config, len(study.candidates()))
    together = sum(runs.values()) * seconds / paper.jobs
    content = {"seconds_per_run": seconds, "runs": runs, "jobs": paper.jobs, "seconds": together}
    write_sealed(paper.folder / ESTIMATE, content)
    told = ", ".join(f"{name} {count}" for name, count in runs.items())
    return ChapterResult(
        f"at most {spoken(seconds)} a run of the locked size, {sum(runs.values())} runs ({told}), "
        f"{paper.jobs} side by side: about {spoken(together)} if none stops early; baselines come on top",
        (ESTIMATE,),
    )


def _seconds_per_run(paper: PaperRun, study: Study) -> float:
    """All epochs at the pace of a warm one, and what a run takes beside them: its start and its judgement."""
    from crossfeed.evaluation.bundle import measure_bundle
    from crossfeed.model.world_model import WorldModel
    from crossfeed.training.run import train

    training, windows = study.config.training, study.protocol["windows"]["train"]["count"]
    steps = steps_in_epoch(windows, training.batch_size, training.steps_per_epoch)
    timed_steps = min(steps, _TIMED_STEPS)
    short = {"pretrain_epochs": 2, "finetune_epochs": 2, "steps_per_epoch": timed_steps}
    timed = override(study.config, {f"training.{name}": value for name, value in short.items()}, "The timed run")
    rows: list[dict[str, float | str]] = []
    sources, began = source_tables(study.store), time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        run = train(
            sources, timed, Path(scratch) / "run", device=paper.device, on_epoch=lambda row: rows.append({**row})
        )
        shared, path = study.protocol["shared_sensors"], Path(scratch) / "bundle.json"
        measure_bundle(WorldModel.load(run.model), sources, timed, run.summary, shared, path)
    trained = sum(float(row["train_seconds"]) + float(row["validation_seconds"]) for row in rows)
    seconds = time.perf_counter() - began - trained
    for stage, epochs in training.stages.items():
        # The first epoch of a stage warms up; the last one says what an epoch costs.
        last = [row for row in rows if row["stage"] == stage][-1]
        step = float(last["train_seconds"]) / timed_steps
        seconds += epochs * (steps * step + float(last["validation_seconds"]))
    return seconds


def planned_runs(settings: PaperSettings, config: RunConfig, candidates: int) -> dict[str, int]:
    """How many runs each part will take at least."""
    later = max(0, MINIMUM_SEEDS - settings.seeds - 1)
    return {
        "search": candidates * settings.seeds,
        "confirmation": min(FINALISTS, candidates) + LEADERS * later,
        "Table 2a": len(arms("initialisation", config)) * settings.initialisation_seeds,
        "Table 2b": len(arms("ablations", config)),
        "RevIN": 2 * settings.pairs,
        "no latent objective": (1 + len(NO_LATENT)) * settings.pairs,
    }


def search(paper: PaperRun) -> ChapterResult:
    """Twenty candidates with every seed, on source rows alone."""
    study = paper.study
    study.plan(seeds=paper.settings.seeds)
    study.search(paper.engine)
    lines = study.rank(stages=["search"])
    invalid = [line.candidate for line in lines if line.invalid_seeds]
    told = f"{len(lines)} candidates x {paper.settings.seeds} seeds; {lines[0].candidate} leads"
    return ChapterResult(told + (f"; with failed runs: {', '.join(invalid)}" if invalid else ""), (_DONE,))


def confirm(paper: PaperRun) -> ChapterResult:
    """Further seeds until the leader stands and has as many valid ones as the lock asks for.

    A leader that no seed can make lockable is passed over, as the protocol says, and the next ones are confirmed.
    """
    study = paper.study
    found = study.confirm(paper.engine)
    while out := next((one.passes_over for one in refusals(study.store) if one.passes_over), None):
        try:
            found = study.confirm(paper.engine, pass_over=out)
        except ConfigError as error:
            return ChapterResult(error.found, (_DONE,))
    stands = "the leader stands" if found.stable else "the leader still changes"
    gone = passed_over(study.store)
    told = f"leading were {found.history}; {stands}"
    return ChapterResult(told + (f"; passed over: {', '.join(gone)}" if gone else ""), (_DONE,))


def initialisation(paper: PaperRun) -> ChapterResult:
    """Table 2a: scratch, pretrained body and complete checkpoint on the same seeds."""
    return _ready(paper, "initialisation", paper.settings.initialisation_seeds)


def ablations(paper: PaperRun) -> ChapterResult:
    """Table 2b: one factor at a time with one seed each, as in the paper."""
    return _ready(paper, "ablations", 1)


def no_latent(paper: PaperRun) -> ChapterResult:
    """The locked configuration without the latent objective: trained before the target is opened, judged after."""
    if not is_locked(paper.folder):
        return ChapterResult(NO_LOCK)
    config = RunConfig.model_validate(paper.study.store.run(chosen_run(paper.folder)).config)
    return _ready(paper, "no-latent", paper.settings.pairs, config, NO_LATENT)


def _ready(
    paper: PaperRun, kind: str, seeds: int, base: RunConfig | None = None, only: tuple[str, ...] = ()
) -> ChapterResult:
    """Plan a ready study once, run it, and say the clean RMSE of each arm."""
    study = paper.study
    if not any(entry.content["kind"] == kind for entry in study.store.entries("ready")):
        plan_ready(study.store, kind, base or study.config, seeds, only)
    study.search(paper.engine)
    found: dict[str, list[float]] = {}
    for run in study.store.runs("finished"):
        if run.stage == f"ready {kind}":
            found.setdefault(run.candidate.partition(".")[2], []).append(run.outcome["bundle"]["components"]["clean"])
    told = ", ".join(f"{arm} {fmean(values):.3f}" for arm, values in found.items())
    return ChapterResult(f"clean RMSE: {told}", (_DONE,))


def _refuse_partial(path: Path) -> None:
    """A download that was stopped leaves a file that says so."""
    left = sorted(path.rglob("*.partial")) if path.is_dir() else []
    if left:
        raise LogError(
            f"{path} is a download that was not finished: {', '.join(file.name for file in left)}.",
            expected="the whole data set",
            remedy="Run `crossfeed data fetch` again; it goes on where it stopped.",
        )


def _refuse_incomplete(kind: str, path: Path, table: Table) -> None:
    """Logs that hold clearly less than the published sets are not the paper's; a row more or less shows on the page."""
    sessions, runs = len(table.groups), len({group.run for group in table.groups})
    cycles = int(table.manifest["counts"]["raw_rows"])
    short = kind == "thws" and sessions < 0.9 * _THWS_SESSIONS
    if short or (kind == "joanneum" and (runs < _JOANNEUM_RUNS or cycles < 0.99 * _JOANNEUM_CYCLES)):
        has, wants = (
            (f"{sessions} sessions", f"{_THWS_SESSIONS} sessions")
            if kind == "thws"
            else (f"{runs} runs with {cycles:,} cycles", f"{_JOANNEUM_RUNS} runs with {_JOANNEUM_CYCLES:,} cycles")
        )
        raise TableError(
            f"{path} holds {has}, fewer than the published data set.",
            expected=wants,
            remedy=f"Fetch it whole: `crossfeed data fetch {kind}` goes on where it stopped. "
            "To rehearse without the data, take --simulated.",
        )
