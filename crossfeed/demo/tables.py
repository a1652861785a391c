"""The demo's two tables: a simulated pair, or real logs of one machine divided into runs to learn from and to seal.

Real logs here come from one machine each. Its later runs play the second machine: other parts or other days, and fewer
sensors. That is an easier move than the one to another machine, and the demo says so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crossfeed.demo.chapter import ChapterResult
from crossfeed.demo.settings import DemoSettings
from crossfeed.errors import TableError
from crossfeed.ingest.align import divide
from crossfeed.ingest.pipeline import ingest
from crossfeed.ingest.table import Group, Table
from crossfeed.machines.log_formats import log_format_named

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


def make_logs(folder: Path, settings: DemoSettings) -> ChapterResult:
    """Let the two simulated machines write their logs."""
    from crossfeed.machines.simulated.study_pair import simulate_pair

    logs = simulate_pair(folder / RAW, "demo", settings.seed)
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
