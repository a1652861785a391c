"""JOANNEUM: a Spinner U5-630 traced in every 2 ms controller cycle, 7 runs in 11 files."""

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import polars as pl

from crossfeed.errors import LogError
from crossfeed.logs.clock import clock_from_numbers, require_clock, seconds
from crossfeed.logs.declaration import CLOCK, PROGRAM, Download, LogFormat, NativeColumn, RawRun, Segmentation
from crossfeed.logs.delimited import read_log, sniff
from crossfeed.logs.files import find_files, match_columns
from crossfeed.logs.log_formats import register_log_format
from crossfeed.schema import canonical

CYCLE = "2 ms"
_NAME = re.compile(r"(?P<run>.+?)_(?P<part>full|part(?P<number>\d+))", re.IGNORECASE)
_MATERIAL = re.compile(r"_(alu|pla)$", re.IGNORECASE)
_Part = tuple[pl.DataFrame, dict[str, int]]

COLUMNS = (
    NativeColumn("Current_SP1", "spindle_current", "A"),
    NativeColumn("Torque_SP1", "spindle_torque", "N m"),
    NativeColumn("Power_SP1", "spindle_power", "W"),
    NativeColumn("Current_X1", "x_current", "A"),
    NativeColumn("Torque_X1", "x_torque", "N m"),
    NativeColumn("Current_Y1", "y_current", "A"),
    NativeColumn("Torque_Y1", "y_torque", "N m"),
    NativeColumn("Current_Z1", "z_current", "A"),
    NativeColumn("Torque_Z1", "z_torque", "N m"),
    NativeColumn("Power_Z1", "z_power", "W"),
    NativeColumn("CommandedSpeed_SP1", "spindle_speed", "deg/s"),
    NativeColumn("CommandedSpeed_X1", "feed_x", "mm/s"),
    NativeColumn("CommandedSpeed_Y1", "feed_y", "mm/s"),
    NativeColumn("CommandedSpeed_Z1", "feed_z", "mm/s"),
)


def read(log_format: LogFormat, path: Path, cycle: str = CYCLE) -> Iterator[RawRun]:
    """One run after the other; a run's parts are read side by side, and the next run while this one is worked on."""
    runs = sorted(_runs(path).items())
    with ThreadPoolExecutor(max_workers=2) as pool:
        waiting = _start(pool, log_format, runs[0][1], cycle)
        for number, (run, files) in enumerate(runs, start=1):
            parts = [future.result() for future in waiting]
            waiting = _start(pool, log_format, runs[number][1], cycle) if number < len(runs) else []
            repairs: Counter[str] = Counter()
            for _, counts in parts:
                repairs.update(counts)
            frames = [frame for frame, _ in parts]
            findings = _gaps_between_parts(run, frames, cycle)
            frame = pl.concat(frames, rechunk=False).with_columns(pl.lit(_MATERIAL.sub("", run)).alias(PROGRAM))
            yield RawRun(run, frame, frame.height, tuple(files[key] for key in sorted(files)), repairs, findings)


def _start(pool: ThreadPoolExecutor, log_format: LogFormat, files: dict[int, Path], cycle: str) -> list[Future[_Part]]:
    return [pool.submit(_read_part, log_format, file, cycle) for _, file in sorted(files.items())]


def _runs(path: Path) -> dict[str, dict[int, Path]]:
    """The files of each run in their order; chunks repeat what the other files hold."""
    runs: dict[str, dict[int, Path]] = {}
    for file in find_files(path, ["*.csv", "*.CSV"]):
        found = _NAME.fullmatch(file.stem)
        if "_chunk" in file.stem.lower() or not found:
            continue
        parts = runs.setdefault(found["run"], {})
        number = int(found["number"] or 0)
        if number in parts:
            raise LogError(
                f"The run '{found['run']}' comes twice: {parts[number]} and {file}.",
                expected="each file of the data set once",
                remedy="Give the folder of one copy.",
            )
        parts[number] = file
    if not runs:
        raise LogError(
            f"{path} holds no JOANNEUM log.",
            expected="files such as Enerman_Alu_full.csv or WG_Vorderseite_Alu_part1.csv",
        )
    for run, parts in runs.items():
        if sorted(parts) not in ([0], list(range(1, len(parts) + 1))):
            names = ", ".join(file.name for file in parts.values())
            raise LogError(f"The run '{run}' is not complete: {names}.", expected="either _full or _part1, _part2, ...")
    return runs


def _read_part(log_format: LogFormat, file: Path, cycle: str) -> _Part:
    dialect = sniff(file)
    named = any(name.strip().lower() == "part" for name in dialect.header)
    match_columns(dialect.header, ["Cycle"], str(file))
    frame, repairs = read_log(file, log_format.columns, ["Cycle"], ["part"] if named else [], dialect)
    clock = clock_from_numbers(frame["@Cycle"], cycle)
    require_clock(clock, str(file), "Cycle")
    part = pl.col("@part").fill_null("") if named else pl.lit("")
    return frame.with_columns(clock.alias(CLOCK), part.alias("@part")).drop("@Cycle"), repairs


def _gaps_between_parts(run: str, parts: list[pl.DataFrame], cycle: str) -> list[str]:
    """Say where a part does not begin one cycle after the end of the part before it; refuse parts that overlap."""
    step = int(clock_from_numbers(pl.Series([1]), cycle)[0])
    findings = []
    for number, (before, after) in enumerate(pairwise(parts), start=2):
        last, first = before[CLOCK].max(), after[CLOCK].min()
        assert isinstance(last, int)
        assert isinstance(first, int)
        if first <= last:
            raise LogError(
                f"Part {number} of the run '{run}' begins at cycle {first // step}, inside part {number - 1}, which "
                f"ends at cycle {last // step}.",
                expected=f"cycle {last // step + 1}",
                remedy="Check that both files belong to the same run.",
            )
        if first != last + step:
            findings.append(
                f"{run}: part {number} begins {(first - last) // step - 1} cycles after the end of part {number - 1}"
            )
    return findings


LOG_FORMAT = LogFormat(
    name="joanneum",
    title="FH JOANNEUM machining data repository (Spinner U5-630, 2 ms controller cycles)",
    machine="joanneum",
    schema=canonical(),
    columns=COLUMNS,
    period=1.0,
    segmentation=Segmentation(boundaries=("part",), gap_s=0.002),
    read=read,
    licence="CC BY-NC 4.0",
    non_commercial=True,
    citation="Brillinger: CNC Machining Data Repository - Geometry, NC Code & High-Frequency Energy Consumption Data "
    "for Aluminum and Plastic Machining, Mendeley Data V2 (2025), doi 10.17632/gtvvwmz7r7.2",
    homepage="https://doi.org/10.17632/gtvvwmz7r7.2",
    downloads=(Download("joanneum.zip", "https://data.mendeley.com/public-api/zip/gtvvwmz7r7/download/2"),),
    notes="Its record says CC BY-NC, other places say CC BY: the stricter one counts. "
    "The cycle of 2 ms is taken from the data set's description; the files count cycles.",
)


def with_cycle(cycle: str) -> LogFormat:
    """The same logs under another assumption about the length of a controller cycle, such as `4 ms`."""
    cut = replace(LOG_FORMAT.segmentation, gap_s=seconds(cycle))
    return replace(LOG_FORMAT, segmentation=cut, read=partial(read, cycle=cycle))


register_log_format(LOG_FORMAT)
