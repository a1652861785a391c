"""What windows cost: preparing tables of growing size, and a batch of 128 with masks against pandas items, on one core.

Run: python benchmarks/windows.py [--repeats 300] [--device cpu] [--write]
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import processor

from crossfeed.logs.table import Group, Table
from crossfeed.schema import canonical
from crossfeed.windows.corrupt import MaskConfig, corrupt, schema_view
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table
from crossfeed.windows.windows import WindowSet

SESSIONS, ROWS, BATCH, CONTEXT, HORIZONS = 62, 29_785, 128, 32, (1, 2, 4, 8, 16)
PREPARED, ROWS_A_SESSION = (100_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000), 240


def make_table(rows: int = ROWS, sessions: int = SESSIONS) -> Table:
    """A table of the source's size or another; values are noise, since only shapes matter here."""
    rng = np.random.default_rng(0)
    edges = np.linspace(0, rows, sessions + 1).astype(int)
    groups = tuple(
        Group("mill", f"s{number:06d}", "run", "part", int(start), int(stop))
        for number, (start, stop) in enumerate(pairwise(edges))
    )
    time_of_row = np.concatenate([np.arange(1.0, len(group) + 1.0) for group in groups])
    sensors, commands = rng.normal(size=(rows, 17)), rng.normal(size=(rows, 4))
    sensors[rng.random(sensors.shape) < 0.02] = np.nan
    return Table(canonical(), groups, time_of_row, sensors, commands, 1.0, {})


def pandas_item(frame: Any, last: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """One window as a data set would cut it from a frame: context, targets, mean commands, random mask."""
    sensors, commands = list(canonical().sensor_names), list(canonical().command_names)
    context = frame.iloc[last - CONTEXT + 1 : last + 1]
    x, a = context[sensors].to_numpy(dtype=np.float32), context[commands].to_numpy(dtype=np.float32)
    targets = np.stack([frame.iloc[last + horizon][sensors].to_numpy(dtype=np.float32) for horizon in HORIZONS])
    means = np.stack([frame.iloc[last + 1 : last + horizon + 1][commands].mean().to_numpy() for horizon in HORIZONS])
    mask = np.isfinite(x) & (rng.random(x.shape) >= 0.35)
    return np.nan_to_num(x), mask, a, targets, means


def clock(work: Callable[[], object], repeats: int, device: str) -> tuple[float, float]:
    """Best and median milliseconds: of processor time on a CPU, which other work does not lengthen."""
    for _ in range(10):
        work()
    now = time.process_time if device == "cpu" else time.perf_counter
    taken = []
    for _ in range(repeats):
        begin = now()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        taken.append(1e3 * (now() - begin))
    return min(taken), float(np.median(taken))


def prepare(rows: int) -> tuple[float, float, float]:
    """Seconds of processor time to split a table, to fit its normaliser, and to make the windows of two sides."""
    table = make_table(rows, rows // ROWS_A_SESSION)
    marks = [time.process_time()]
    split = split_table(table)
    sides = [split.groups(table, part) for part in ("train", "validation")]
    marks.append(time.process_time())
    normaliser = Normaliser.fit(split.train_rows(table))
    marks.append(time.process_time())
    for groups in sides:
        WindowSet.build(table, groups, normaliser, CONTEXT, HORIZONS)
    marks.append(time.process_time())
    one, two, three = (after - before for before, after in pairwise(marks))
    return one, two, three


def measure(device: str, repeats: int) -> list[tuple[str, float, float]]:
    """Every mask mode on a fresh batch each time, then the pandas items."""
    import pandas as pd

    table = make_table()
    split = split_table(table)
    normaliser = Normaliser.fit(split.train_rows(table))
    windows = WindowSet.build(table, split.groups(table, "train"), normaliser, CONTEXT, HORIZONS, device=device)
    generator = torch.Generator(device).manual_seed(0)

    def batch(config: MaskConfig, view: bool) -> None:
        index_B = torch.randint(len(windows), (BATCH,), generator=generator, device=device)
        found = windows.batch(index_B)
        seen = corrupt(found.x_BKC, found.m_BKC, config, generator)
        if view:
            schema_view(seen, 0.65, generator)

    lines = []
    for mode in ("none", "channel", "random", "block", "event", "mixed"):
        config = MaskConfig.model_validate({"mode": mode})
        lines.append((f"batch of {BATCH}, mask {mode}", *clock(partial(batch, config, False), repeats, device)))
    both = clock(partial(batch, MaskConfig(), True), repeats, device)
    lines.append((f"batch of {BATCH}, mask channel and schema view", *both))
    columns = (*table.schema.sensor_names, *table.schema.command_names)
    frame = pd.DataFrame(np.concatenate([table.sensors, table.commands], axis=1), columns=list(columns))
    rng = np.random.default_rng(0)
    item = clock(lambda: pandas_item(frame, int(rng.integers(100, 400)), rng), 30, "cpu")
    return [*lines, ("one window as a pandas item, mask random", *item)]


def report(device: str, repeats: int) -> str:
    """The table, with the price of a batch in pandas items for comparison."""
    lines = measure(device, repeats)
    item, default = lines[-1][1], lines[1][1]
    hardware = f"one core of {processor()}" if device == "cpu" else torch.cuda.get_device_name()
    prepared = [(rows, *prepare(rows)) for rows in PREPARED]
    return (
        "\n".join(
            [
                f"# Preparing a table of {ROWS_A_SESSION} rows a session: split, normaliser, windows of two sides",
                "",
                "| rows | sessions | split, s | normaliser, s | windows, s | together, s | s a million rows |",
                "|---|---|---|---|---|---|---|",
                *(
                    f"| {rows:,} | {rows // ROWS_A_SESSION:,} | {split:.2f} | {fit:.2f} | {windows:.2f} | "
                    f"{split + fit + windows:.2f} | {1e6 * (split + fit + windows) / rows:.2f} |"
                    for rows, split, fit, windows in prepared
                ),
                "",
                f"Processor time on {hardware}, {date.today():%Y-%m-%d}.",
                "",
                f"# A batch of {BATCH} windows (context {CONTEXT}, 17 sensors, 5 horizons) of a {ROWS:,}-row table",
                "",
                "| | best, ms | median, ms |",
                "|---|---|---|",
                *(f"| {name} | {best:.2f} | {median:.2f} |" for name, best, median in lines),
                "",
                f"{BATCH} pandas items take {BATCH * item:,.0f} ms, {BATCH * item / default:,.0f} times as long as a",
                "batch with channel masks, the default. To reach: 1 ms a batch.",
                f"{repeats} batches of each kind on {hardware}; torch {torch.__version__.split('+')[0]},",
                f"Python {platform.python_version()}, `python benchmarks/windows.py --write`.",
            ]
        )
        + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/windows.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    text = report(options.device, options.repeats)
    print(text)
    if options.write:
        Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
