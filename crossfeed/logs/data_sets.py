"""The published data sets that are known by name: THWS, JOANNEUM and Michigan; log_formats.yaml says what they hold.

THWS: a Spinner U5-620 with a Siemens 840D sl, three days of production with changeovers, one row a second.
JOANNEUM: a Spinner U5-630 traced in every 2 ms controller cycle, 7 runs in 11 files.
Michigan: 18 runs of a small CNC mill, ten rows a second, one S-shaped part in three layers each.
"""

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
from crossfeed.logs.clock import clock_from_numbers, clock_from_text, require_clock, seconds
from crossfeed.logs.declaration import CLOCK, LABEL, MICROSECONDS, PROGRAM, LogFormat, RawRun
from crossfeed.logs.delimited import read_log, sniff
from crossfeed.logs.files import find_files, match_columns
from crossfeed.logs.log_formats import described, register_log_format

CYCLE = "2 ms"
_NAME = re.compile(r"(?P<run>.+?)_(?P<part>full|part(?P<number>\d+))", re.IGNORECASE)
_MATERIAL = re.compile(r"_(alu|pla)$", re.IGNORECASE)
_EXPERIMENT = re.compile(r"experiment_\d+", re.IGNORECASE)
_Part = tuple[pl.DataFrame, dict[str, int]]


def base_name(path: pl.Expr) -> pl.Expr:
    """The program a path names: its last element without the Siemens prefix `_N_` and suffix `_MPF`."""
    last = path.str.strip_chars().str.strip_chars_end("/").str.split("/").list.last()
    return last.str.strip_prefix("_N_").str.strip_suffix("_MPF")


def _read_thws(log_format: LogFormat, path: Path) -> Iterator[RawRun]:
    """All rows of the log as one run; ingest names the runs after the day on which a session began."""
    files = find_files(path, ["data*.csv"]) or find_files(path, ["*.csv"])
    if len(files) != 1:
        raise LogError(
            f"{path} holds {len(files)} files that could be a THWS log"
            + (f": {', '.join(file.name for file in files)}." if files else "."),
            expected="one file such as data_v1_0_1.csv",
            remedy="Give the path of the file itself.",
        )
    frame, repairs = read_log(files[0], log_format.columns, numbers=["Program_status"], texts=["time", "Program_path"])
    clock = clock_from_text(frame["@time"])
    require_clock(clock, str(files[0]), "time")
    frame = frame.with_columns(clock.alias(CLOCK), base_name(pl.col("@Program_path")).fill_null("").alias(PROGRAM))
    yield RawRun(None, frame.drop("@time"), frame.height, (files[0],), repairs)


def _read_joanneum(log_format: LogFormat, path: Path, cycle: str = CYCLE) -> Iterator[RawRun]:
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


def with_cycle(cycle: str) -> LogFormat:
    """The same logs under another assumption about the length of a controller cycle, such as `4 ms`."""
    cut = replace(JOANNEUM.segmentation, gap_s=seconds(cycle))
    return replace(JOANNEUM, segmentation=cut, read=partial(_read_joanneum, cycle=cycle))


def _read_michigan(log_format: LogFormat, path: Path) -> Iterator[RawRun]:
    """Each file is one run and one session."""
    files = [file for file in find_files(path, ["*.csv"]) if _EXPERIMENT.fullmatch(file.stem)]
    if not files:
        raise LogError(f"{path} holds no Michigan log.", expected="files such as experiment_01.csv")
    for file in files:
        frame, repairs = read_log(file, log_format.columns)
        frame, findings = _by_content(frame)
        clock = pl.int_range(frame.height, eager=True) * (round(MICROSECONDS * log_format.period))
        # Every run mills the same part; the program number in the files also shows other values after the end.
        frame = frame.with_columns(clock.alias(CLOCK), pl.lit("S").alias(PROGRAM), pl.lit(file.stem).alias(LABEL))
        yield RawRun(file.stem, frame, frame.height, (file,), repairs, findings)


def _by_content(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Tell bus voltage and output current apart by what the columns hold: the bus carries hundreds of volts."""
    interchanged, as_named = [], []
    for name in ("x", "y", "z", "spindle"):
        volts, amperes = f"{name}_dc_voltage", f"{name}_output_current"
        higher, lower = frame[volts].abs().median(), frame[amperes].abs().median()
        if not isinstance(higher, float) or not isinstance(lower, float) or higher == lower == 0.0:
            continue
        if higher > lower:
            interchanged.append(name)
        else:
            as_named.append(name)
            frame = frame.rename({volts: amperes, amperes: volts})
    findings = []
    if interchanged:
        findings.append(
            f"the headers DCBusVoltage and OutputCurrent are interchanged ({', '.join(interchanged)}); "
            "the columns were read by what they hold"
        )
    if as_named:
        findings.append(f"the headers DCBusVoltage and OutputCurrent are right ({', '.join(as_named)})")
    return frame, findings


THWS = described("thws", read=_read_thws)
JOANNEUM = described("joanneum", read=_read_joanneum)
MICHIGAN = described("michigan", read=_read_michigan)
for log_format in (THWS, JOANNEUM, MICHIGAN):
    register_log_format(log_format)
