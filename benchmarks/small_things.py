"""What a person waits for: a forecast from a cold start, two plans side by side, a report, an evaluation.

    python benchmarks/small_things.py [--repeats 3] [--busy] [--out benchmarks/small_things.md]

Every command runs in a process of its own on material that is made first (a compact model with drawn weights on two
simulated machines). Time of the cores leaves out what other processes took; `--busy` adds one busy process on purpose.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOALS = {
    "crossfeed --help": "0.5 s",
    "crossfeed forecast": "3 s",
    "crossfeed what-if, two plans of 900 rows": "5 s",
    "crossfeed report": "3 s",
    "crossfeed evaluate, 2,500 windows": "10 s",
}

MATERIAL = """
import sys
from pathlib import Path
import numpy as np, torch
from crossfeed.logs.table import Group, Table
from crossfeed.progress import be_quiet
from crossfeed.schema import canonical
from crossfeed.configuration import override
from crossfeed.training.run import train
from crossfeed.training.run_config import preset
folder = Path(sys.argv[1])
be_quiet()
torch.set_num_threads(2)

def table(machine, sessions, rows, seed):
    draw, schema = np.random.default_rng(seed), canonical()
    commands = np.repeat(draw.choice([0.0, 1000.0, 3000.0], (sessions * rows // 10, 4)), 10, 0)
    gain = np.random.default_rng(1).normal(size=(4, 17)) / 1000
    sensors = commands @ gain + draw.normal(size=(sessions * rows, 17)) * 0.2 + 5.0
    groups = [Group(machine, f"s{n:02d}", "run", "part", n * rows, (n + 1) * rows) for n in range(sessions)]
    return Table(schema, tuple(groups), np.tile(np.arange(rows, dtype=float), sessions), sensors, commands, 1.0, {})

source, target = table("a", 12, 200, 0), table("b", 2, 1300, 5)
source.write(folder / "source.parquet")
target.write(folder / "target.parquet")
settings = {"training.finetune_epochs": 1, "training.steps_per_epoch": 2, "training.batch_size": 16}
train(source, override(preset("crossfeed", "compact"), settings), folder / "run", device="cpu")
"""


def measured(command: list[str], folder: Path) -> tuple[float, float]:
    """Seconds by the clock and seconds of the cores."""
    before, began = os.times(), time.perf_counter()
    # As on a user's machine: bytecode is kept from one start to the next, so the best of several is not the first.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=kept)
    seconds, after = time.perf_counter() - began, os.times()
    if ran.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{ran.stderr}")
    return seconds, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--busy", action="store_true")
    options.add_argument(
        "--only", default="", help="rows of the table whose names hold one of these words, with commas"
    )
    options.add_argument("--out", type=Path)
    asked = options.parse_args()
    crossfeed = [sys.executable, "-m", "crossfeed"]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-c", MATERIAL, str(folder)], check=True)
        plan = ["forecast", "run", "--history", "target.parquet", "--at", "100", "--commands", "table"]
        measured([*crossfeed, "evaluate", "run", "-t", "target.parquet", "-o", "evaluation"], folder)
        csv = folder / "slow.csv"
        lines = [f"{1000 + 500 * (row // 30 % 3)},{row % 700},{row % 500},0" for row in range(900)]
        csv.write_text("spindle_speed,feed_x,feed_y,feed_z\n" + "\n".join(lines) + "\n", encoding="utf-8")
        (folder / "fast.csv").write_text(csv.read_text(encoding="utf-8").replace("1000,", "2000,"), encoding="utf-8")
        two = ["what-if", *plan[1:-1], "slow.csv", "--compare", "fast.csv"]
        commands = {
            "crossfeed --help": ["--help"],
            "crossfeed forecast": plan,
            "crossfeed what-if, two plans of 900 rows": two,
            "crossfeed report": ["report", "run"],
            "crossfeed evaluate, 2,500 windows": ["evaluate", "run", "-t", "target.parquet", "-o", "again"],
        }
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if asked.busy else None
        try:
            for title, words in commands.items():
                if not any(word in title for word in asked.only.split(",")):
                    continue
                times = [measured([*crossfeed, *words], folder) for _ in range(asked.repeats)]
                rows.append((title, min(time for time, _ in times), min(work for _, work in times)))
                print(json.dumps(rows[-1]), flush=True)
        finally:
            if busy is not None:
                busy.kill()
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    text = "\n".join(
        [
            "# Small things",
            "",
            f"`python benchmarks/small_things.py --repeats {asked.repeats}`, {cores} cores, load of the machine "
            f"{load:.0f}{', one busy process beside it' if asked.busy else ''}; best of {asked.repeats}.",
            "",
            "| what | by the clock | time of the cores | goal |",
            "|---|---:|---:|---:|",
            *(f"| {title} | {clock:.1f} s | {work:.1f} s | {GOALS[title]} |" for title, clock, work in rows),
            "",
        ]
    )
    print(text)
    if asked.out:
        asked.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
