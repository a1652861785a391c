"""Ingest of a JOANNEUM-sized run set: crossfeed against a straightforward pandas version, each in its own process.

Run: python benchmarks/ingest.py [--logs FOLDER] [--repeats 3] [--write]
Without --logs, 11 files with 1,503,915 rows are made first: signals are noise, since only size and format matter here.
`python benchmarks/ingest.py pandas|crossfeed FOLDER` runs one side alone and prints seconds, peak memory and rows.
"""

import argparse
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
from measuring import processor

ROWS = 1_503_915
RUNS = {
    **dict.fromkeys(("Enerman_Alu", "Enerman_PLA", "Enerman_Part2"), 1),
    **{f"WG_{side}_{material}": 2 for side in ("Vorderseite", "Rueckseite") for material in ("Alu", "PLA")},
}
AXES = ("SP1", "X1", "Y1", "Z1")
SENSORS = {
    **{f"{kind}_{axis}": 1.0 for axis in AXES for kind in ("Current", "Torque")},
    "Power_SP1": 1e-3,
    "Power_Z1": 1e-3,
}
COMMANDS = {"CommandedSpeed_SP1": 1 / 6, **{f"CommandedSpeed_{axis}": 60.0 for axis in AXES[1:]}}


def make_logs(folder: Path) -> None:
    """Write the run set in its native format: 7 runs in 11 files."""
    import polars as pl

    generator = np.random.default_rng(0)
    ends = np.linspace(0, ROWS, len(RUNS) + 1).astype(int)
    for (run, parts), rows in zip(RUNS.items(), np.diff(ends), strict=True):
        cycle = np.arange(1, rows + 1)
        signals = {name: generator.normal(size=rows).round(6) for name in (*SENSORS, *COMMANDS)}
        frame = pl.DataFrame({"part": np.ones(rows, int), "block": cycle // 100, "Cycle": cycle, **signals})
        folder.mkdir(parents=True, exist_ok=True)
        if parts == 1:
            frame.write_csv(folder / f"{run}_full.csv")
        else:
            frame[: rows // 2].write_csv(folder / f"{run}_part1.csv")
            frame[rows // 2 :].write_csv(folder / f"{run}_part2.csv")


def with_pandas(folder: Path) -> int:
    """What one would write first: read, sort, scale, resample with the paper's rule (command last in bin)."""
    import pandas as pd

    files: dict[str, list[Path]] = {}
    for file in sorted(folder.rglob("*.csv")):
        found = re.fullmatch(r"(.+?)_(full|part\d+)", file.stem)
        if found:
            files.setdefault(found[1], []).append(file)
    tables = []
    for run, parts in files.items():
        frame = pd.concat([pd.read_csv(part).assign(file=part.stem) for part in parts], ignore_index=True)
        frame = frame.sort_values("Cycle").drop_duplicates("Cycle")
        frame["session"] = ((frame["Cycle"].diff() != 1) | (frame["file"] != frame["file"].shift())).cumsum()
        frame["time"] = pd.to_datetime(frame["Cycle"] * 2, unit="ms")
        for name, factor in {**SENSORS, **COMMANDS}.items():
            frame[name] *= factor
        for session, rows in frame.groupby("session"):
            bins = rows.set_index("time").resample("1s", closed="right", label="right")
            table = pd.concat([bins[list(SENSORS)].mean(), bins[list(COMMANDS)].last()], axis=1)
            tables.append(table.assign(run=run, session=session))
    table = pd.concat(tables)
    table.to_parquet(folder / "pandas.parquet")
    return len(table)


def with_crossfeed(folder: Path) -> int:
    """The same logs through the Python API: also fingerprints of the files, manifest and statistics."""
    from crossfeed.logs.log_formats import log_format_named
    from crossfeed.logs.pipeline import ingest

    table = ingest(log_format_named("joanneum"), folder)
    table.write(folder / "crossfeed.parquet")
    return len(table)


def run_side(side: str, folder: Path) -> dict[str, float]:
    """One side in this process: seconds after the imports, peak memory, rows."""
    if side == "pandas":
        import pandas  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    else:
        from crossfeed.logs.log_formats import log_format_named
        from crossfeed.logs.pipeline import ingest  # noqa: F401

        log_format_named("joanneum")
    begin, worked = time.perf_counter(), time.process_time()
    rows = with_pandas(folder) if side == "pandas" else with_crossfeed(folder)
    return {
        "work": time.perf_counter() - begin,
        "cpu": time.process_time() - worked,
        "rows": rows,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure(side: str, folder: Path) -> dict[str, float]:
    """One side in a process of its own."""
    begin = time.perf_counter()
    words = [sys.executable, __file__, side, str(folder)]
    result = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return {**result, "seconds": time.perf_counter() - begin}


def report(folder: Path, repeats: int) -> str:
    """The table: best of several runs, taken in turn so that both sides see the same machine."""
    sides: dict[str, list[dict[str, float]]] = {"pandas": [], "crossfeed": []}
    for _ in range(repeats):
        for side, results in sides.items():
            results.append(measure(side, folder))
    best = {side: min(results, key=lambda result: result["seconds"]) for side, results in sides.items()}
    size, cores = sum(file.stat().st_size for file in folder.rglob("*.csv")) / 1e6, len(os.sched_getaffinity(0))
    lines = [
        f"# Ingest of {ROWS:,} rows of 2 ms cycles ({size:.0f} MB of CSV in 11 files) into a 1 s table",
        "",
        "| | ingest, s | of processor, s | whole process, s | peak memory, MB | rows of the table |",
        "|---|---|---|---|---|---|",
        *(
            f"| {side} | {r['work']:.2f} | {r['cpu']:.2f} | {r['seconds']:.2f} | {r['peak_mb']:.0f} | {r['rows']:,} |"
            for side, r in best.items()
        ),
        "",
        "To reach: 5 s and 1,500 MB. The pandas version reads, sorts, scales and averages; crossfeed also computes",
        "SHA-256 fingerprints, time-weighted commands, repairs, findings and statistics.",
        f"Best of {repeats} runs each, taken in turn. Measured {date.today()} on {processor()}, {cores} cores, Python",
        f"{platform.python_version()}, with `python benchmarks/ingest.py --write`. Load while measuring: "
        f"{os.getloadavg()[0]:.0f} processes; above 2, compare the processor seconds, which others do not stretch.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", nargs="?", choices=("pandas", "crossfeed"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--logs", type=Path, help="a folder with JOANNEUM logs to use instead of made ones")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/ingest.md")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_side(options.side, options.folder)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.logs or Path(scratch)
        if options.logs is None:
            make_logs(folder)
        text = report(folder, options.repeats)
    print(text)
    if options.write:
        Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
