"""The middle of the story: a small search on the source, confirmation, lock, and one look at the sealed target."""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossfeed.configuration import override
from crossfeed.demo.chapter import CANDIDATES, JOBS, MINIMUM_SEEDS, MOST_SEEDS, SEEDS, ChapterResult, DemoSettings
from crossfeed.errors import TableError
from crossfeed.files import write_json, write_sealed
from crossfeed.jobs import LocalEngine
from crossfeed.logs.align import divide
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Group, Table
from crossfeed.show.tables import plural
from crossfeed.study.study import Study

if TYPE_CHECKING:
    from crossfeed.sim.simulate import Scale

# The demo's two tables: a simulated pair, or real logs of one machine divided into runs to learn from and to seal.


SOURCE, TARGET, RAW = "source.parquet", "target.parquet", "raw"
FEWEST_RUNS = 4


@dataclass(frozen=True, slots=True)
class Division:
    """How the runs of one machine become a source and a second machine."""

    period: float | None  # seconds between rows; none for that of the kind
    runs: tuple[int, int]  # at most so many to learn from and to seal
    rows: tuple[float, float]  # whole sessions of a run until so many rows are there
    hidden: tuple[str, ...]  # sensors that the second machine lacks


DIVISIONS = {
    "michigan": Division(
        period=0.5, runs=(12, 6), rows=(math.inf, math.inf),
        hidden=(
            "y_current", "y_output_current", "y_dc_voltage", "y_output_voltage", "y_power",
            "spindle_output_voltage", "spindle_dc_voltage",
        ),
    ),
    "mtconnect": Division(
        period=None, runs=(10, 5), rows=(400, 200), hidden=("y_load", "turning_spindle_load", "spindle_temp"),
    ),
}  # fmt: skip


def make_logs(folder: Path, scale: "str | Scale", seed: int) -> ChapterResult:
    """Let the two simulated machines write logs in the native formats of the two data sets."""
    from crossfeed.sim.simulate import simulate_pair

    logs = simulate_pair(folder / RAW, scale, seed)
    files = sum(len(log.files) for log in logs)
    rows = " and ".join(f"{log.raw_rows:,} rows of {log.machine}" for log in logs)
    return ChapterResult(f"{rows} in {files} files, each in its own format and units", (RAW,))


def make_tables(folder: Path, settings: DemoSettings) -> tuple[Table, Table]:
    """Ingest the logs and write source and target table."""
    if settings.simulated:
        source = ingest(log_format_named("thws"), folder / RAW / "thws")
        target = ingest(log_format_named("joanneum"), folder / RAW / "joanneum")
    else:
        assert settings.logs is not None
        how = DIVISIONS[settings.data]
        source, target = divide_runs(ingest(log_format_named(settings.data), settings.logs, period=how.period), how)
    source.write(folder / SOURCE)
    target.write(folder / TARGET)
    return source, target


def divide_runs(table: Table, how: Division) -> tuple[Table, Table]:
    """Earlier runs for the source; later ones, without the hidden sensors, as a machine of another name."""
    runs = sorted({group.run for group in table.groups})
    if len(runs) < FEWEST_RUNS:
        raise TableError(
            f"The logs hold {len(runs)} runs.",
            expected=f"at least {FEWEST_RUNS}, so that some can be learned from and others sealed",
            remedy="Point the demo at the folder with all files of the data set.",
        )
    cut = len(runs) - max(2, len(runs) // 3)
    earlier, later = _spread(runs[:cut], how.runs[0]), _spread(runs[cut:], how.runs[1])
    fewer = table.select([*_leading(table.groups, earlier, how.rows[0]), *_leading(table.groups, later, how.rows[1])])
    return divide(fewer, later, how.hidden, f"{table.machines()[0]}_reduced")


def _spread(runs: Sequence[str], most: int) -> set[str]:
    """At most so many of the runs, evenly over time."""
    step = max(1.0, len(runs) / most)
    return {runs[int(number * step)] for number in range(min(most, len(runs)))}


def _leading(groups: Sequence[Group], runs: set[str], rows: float) -> list[Group]:
    """The sessions of these runs, of each run the first ones until there are enough rows."""
    taken = dict.fromkeys(runs, 0)
    chosen = []
    for group in groups:
        if group.run in runs and taken[group.run] < rows:
            chosen.append(group)
            taken[group.run] += len(group)
    return chosen


STUDY, LOCK, REFUSAL, AUDIT = "study", "study/lock.json", "refusal.json", "audit.json"
RESULT, RELEASED = "study/results/target-1.json", "released/target.parquet"


def prepare(folder: Path, settings: DemoSettings) -> ChapterResult:
    """Logs become tables, and the audit looks at both."""
    return audited(folder, *make_tables(folder, settings))


def audited(folder: Path, source: Table, target: Table) -> ChapterResult:
    """What the audit finds in both tables is told; the study decides what it refuses."""
    from crossfeed.windows.audits.run import audit

    found = audit([folder / SOURCE, folder / TARGET])
    write_sealed(folder / AUDIT, found.to_dict())
    told = (
        f"source {len(source):,} rows with {len(source.shown())} sensors, target {len(target):,} rows with "
        f"{len(target.shown())}; audit: {plural(len(found.of('violation')), 'violation')}, "
        f"{plural(len(found.of('warning')), 'warning')}"
    )
    return ChapterResult(told, (SOURCE, AUDIT))


def seal(folder: Path, settings: DemoSettings) -> ChapterResult:
    """Begin the demo's study by our protocol."""
    return begin_study(
        folder, lambda: make_tables(folder, settings),
        protocol="crossfeed", size="tiny", settings=settings.model, minimum_seeds=MINIMUM_SEEDS,
    )  # fmt: skip


def begin_study(folder: Path, make: Callable[[], object], **how: Any) -> ChapterResult:
    """Begin the study, making the tables again where a stop lost them; from here on nothing can read the target."""
    beginning = folder / f".{STUDY}.partial"
    if not (folder / STUDY).exists():
        shutil.rmtree(beginning, ignore_errors=True)
        if not (folder / TARGET).exists():
            make()
        Study.init(beginning, [folder / SOURCE], [folder / TARGET], **how)
        beginning.rename(folder / STUDY)
    study = Study(folder / STUDY)
    (sealed,) = study.protocol["vault"]
    return ChapterResult(
        f"{sealed['rows']:,} rows of {', '.join(sealed['machines'])} went into the vault; "
        f"ledger head {study.verify().head[:12]}",
        (f"{STUDY}/study.db",),
    )


def search(folder: Path) -> ChapterResult:
    """Every candidate with every seed, on source rows only."""
    study = Study(folder / STUDY)
    base = study.config
    study.plan({name: override(base, changes, name) for name, changes in CANDIDATES.items()}, SEEDS)
    study.search(LocalEngine(JOBS, device="cpu"))
    lines = study.rank()
    invalid = [line.candidate for line in lines if line.invalid_seeds]
    told = f"{len(CANDIDATES)} candidates x {SEEDS} seeds; {lines[0].candidate} leads"
    if invalid:
        told += f"; out because a run failed: {', '.join(invalid)}"
    return ChapterResult(told, (f"{STUDY}/study.db",))


def confirm(folder: Path) -> ChapterResult:
    """Further seeds until the leader stands, or the demo's patience ends."""
    study = Study(folder / STUDY)
    found = study.confirm(LocalEngine(JOBS, device="cpu"), MOST_SEEDS)
    counts = sorted(found.leaders)
    told = f"the leader still changes with {counts[-1]} seeds"
    if found.stable:
        told = f"{found.leader} leads with {counts[-2]} and with {counts[-1]} seeds"
    return ChapterResult(told, (f"{STUDY}/study.db",))


def lock(folder: Path) -> ChapterResult:
    """Freeze the leader, or keep the reasons why the protocol refuses."""
    study = Study(folder / STUDY)
    if not is_locked(folder):
        reasons = [] if study.store.entries("lock") else study.refusals()
        if reasons:
            write_json(folder / REFUSAL, reasons)
            return ChapterResult(f"refused, the target stays sealed: {'; '.join(reasons)}", (REFUSAL,))
        study.lock()
    content = study.store.entries("lock")[-1].content
    return ChapterResult(
        f"{content['candidate']}, seed {content['seed']} (the {content['seed_rule']} one), frozen by five hashes; "
        f"checkpoint {content['checkpoint_sha256'][:12]}",
        (LOCK,),
    )


def chosen_run(folder: Path) -> str:
    """The locked run, or after a refusal the first seed of the leader: it may be looked at on the source."""
    study = Study(folder / STUDY)
    with_lock = [entry.content["run"] for entry in study.ledger() if entry.kind == "lock"]
    if with_lock:
        return str(with_lock[-1])
    leader = study.rank()[0].candidate
    return next(run.name for run in study.store.runs("finished") if run.candidate == leader)


def model_folder(folder: Path) -> Path:
    """Where the chosen model lies."""
    return folder / STUDY / "runs" / chosen_run(folder)


def is_locked(folder: Path) -> bool:
    """Whether the study got as far as a lock."""
    return (folder / LOCK).exists()


def open_target(folder: Path) -> ChapterResult:
    """The one look, if the protocol allows it, with adaptation; then the target is handed back for what follows."""
    if not is_locked(folder):
        return ChapterResult("not opened: there is no lock; what follows looks at the source machine only")
    study = Study(folder / STUDY)
    if not (folder / RESULT).exists():
        study.unseal()
    if not (folder / RELEASED).exists():
        study.release((folder / RELEASED).parent)
    found = opening(folder)
    scores, name = found["scores"], chosen_run(folder)
    floors = ", ".join(f"{floor} {scores[floor]['rmse']:.3f}" for floor in scores if floor != name)
    return ChapterResult(
        f"{found['windows']:,} windows of {len(found['runs'])} runs, opened once: RMSE {scores[name]['rmse']:.3f} "
        f"({floors}); then released, so that the rest may look",
        (RESULT, RELEASED),
    )


def opening(folder: Path) -> dict[str, Any]:
    """The result of the confirmatory opening."""
    content: dict[str, Any] = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    return content
