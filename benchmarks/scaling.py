"""How the cost of a training step grows with channels, context, horizons and batch.

    python benchmarks/scaling.py --device cuda --out scaling.jsonl          # compact size, batch 64
    python benchmarks/scaling.py --device cpu --size tiny --batch 8 --out scaling_cpu.jsonl

One thing grows at a time; on a GPU the step is the one that training uses there.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from measuring import keep

from crossfeed.configuration import override
from crossfeed.logs.table import Group, Table
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Channel, Schema
from crossfeed.training.data import prepare
from crossfeed.training.run_config import preset
from crossfeed.training.step import TrainStep

GROWTH: dict[str, tuple[Any, ...]] = {
    "channels": (17, 34, 50, 100, 200),
    "context": (32, 64, 128, 256, 512),
    "horizons": (5, 16, 32),
    "batch": (32, 64, 128, 256),
}


def synthetic(channels: int) -> Table:
    """Eight long sessions of noise; cost does not depend on the values."""
    schema = Schema(
        name=f"synthetic {channels}",
        sensors=tuple(Channel(name=f"current_{n}", quantity="current", unit="A") for n in range(channels)),
        commands=tuple(Channel(name=f"feed_{n}", quantity="feed", unit="mm/min") for n in range(4)),
    )
    sessions, rows, random = 8, 700, np.random.default_rng(0)
    groups = [Group("m", f"s{n}", "r", "p", n * rows, (n + 1) * rows) for n in range(sessions)]
    time_N = np.tile(np.arange(rows, dtype=float), sessions)
    values, commands = (random.normal(size=(sessions * rows, width)) for width in (channels, 4))
    return Table(schema, tuple(groups), time_N, values, commands, 1.0, {})


def build(options: argparse.Namespace, what: str, amount: int) -> TrainStep:
    """A pretraining step in which one quantity has another value."""
    changes: dict[str, Any] = {"training.batch_size": options.batch}
    if what == "context":
        changes["model.context"] = amount
    if what == "batch":
        changes["training.batch_size"] = amount * options.batch // 64
    if what == "horizons":
        changes["model.horizons"] = [1, 2, 4, 8, 16] if amount == 5 else list(range(1, amount + 1))
    config = override(preset(options.preset, options.size), changes)
    device = torch.device(options.device)
    data = prepare([synthetic(amount if what == "channels" else 17)], config, device)
    torch.manual_seed(0)
    model = WorldModel.build(config.model, data.schema, data.normaliser).to(device)
    step = TrainStep(model, data.train, config, "pretrain", 64, "bf16" if device.type == "cuda" else "float32")
    step.begin_epoch(0)
    return step


def measure(step: TrainStep, seconds: float) -> dict[str, float | None]:
    """Median milliseconds of a step and, on a GPU, the largest memory."""
    cuda = step.device.type == "cuda"
    for _ in range(5 if cuda else 1):
        step()
    times: list[float] = []
    while len(times) < (8 if cuda else 3) or (sum(times) < seconds and len(times) < 40):
        if cuda:
            torch.cuda.synchronize()
        began = time.perf_counter()
        step()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else None
    return {"step_ms": 1000 * median(times), "peak_gib": peak}


def plot(lines: Path, picture: Path) -> None:
    """Step time and memory against channels and context, with the line of proportional growth."""
    from crossfeed.show.figures import COLOURS, new_figure, save_figure

    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    with new_figure(7.0, 3.0) as figure:
        for axes, what in zip(figure.subplots(1, 2), ("channels", "context"), strict=True):
            own = [row for row in rows if row["what"] == what]
            amount, first = [row["amount"] for row in own], own[0]
            proportional = [first["step_ms"] * value / first["amount"] for value in amount]
            axes.loglog(amount, [row["step_ms"] for row in own], "o-", color=COLOURS[0], label="step, ms")
            axes.loglog(amount, proportional, ":", color=COLOURS[0], label="proportional")
            axes.loglog(amount, [row["peak_gib"] for row in own], "s-", color=COLOURS[1], label="memory, GiB")
            axes.set_xticks(amount, [str(value) for value in amount])
            axes.minorticks_off()
            axes.set_xlabel("sensors" if what == "channels" else "rows of context")
            axes.legend()
        save_figure(figure, picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--preset", default="mended")
    parser.add_argument("--size", default="compact")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0.2, help="time spent on each line")
    parser.add_argument("--only", nargs="*", default=list(GROWTH))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path, nargs=2, metavar=("LINES", "PICTURE"), help="draw earlier results instead")
    options = parser.parse_args()
    if options.plot:
        plot(*options.plot)
        return
    for what in options.only:
        for amount in GROWTH[what]:
            if options.device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            row: dict[str, Any] = {"what": what, "amount": amount, "size": options.size, "batch": options.batch}
            try:
                row |= measure(build(options, what, amount), options.seconds)
            except torch.cuda.OutOfMemoryError:
                row["failed"] = "out of memory"
            keep(row, options.out)


if __name__ == "__main__":
    main()
