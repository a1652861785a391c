"""What the wider units of an AMD processor bring: training, forecasting and evaluating with and without them, in turns.

    python benchmarks/products.py [--seconds 8] [--out benchmarks/products.md]

One thread; time of the core, the best of as many turns as fit into --seconds. Where a processor gains nothing both
columns are the same by construction, and the page says so. Windows are synthetic and weights drawn: neither changes a
cost.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import torch
from train_step import first_stage, source

from crossfeed.configuration import override
from crossfeed.model.live import LiveForecaster
from crossfeed.model.world_model import WorldModel
from crossfeed.processes import begin_own_command, gains, wide_products
from crossfeed.training.data import TrainingData, prepare
from crossfeed.training.run_config import RunConfig, planned, resolve_config
from crossfeed.training.step import TrainStep

STEPS = 512
CPU = torch.device("cpu")
STEP_KINDS = (
    ("crossfeed", "tiny", 32),
    ("crossfeed", "compact", 32),
    ("crossfeed", "compact", 128),
    ("crossfeed", "base", 128),
    ("paper", "tiny", 32),
    ("paper", "compact", 32),
)


def in_turns(action: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Milliseconds of the core without and with the wide units, the best of each."""
    ways: tuple[Callable[[], AbstractContextManager[None]], ...] = (nullcontext, wide_products)
    best, began, turns = [float("inf"), float("inf")], time.monotonic(), 0
    while turns < 3 or time.monotonic() - began < seconds:
        for number, way in enumerate(ways):
            with way():
                start = time.process_time()
                action()
                spent = 1e3 * (time.process_time() - start)
            best[number] = min(best[number], spent) if turns else best[number]  # the first turn warms up
        turns += 1
    return best[0], best[1]


def training_step(data: TrainingData, config: RunConfig) -> TrainStep:
    """A step that can be called as often as the benchmark likes."""
    torch.manual_seed(0)
    model = WorldModel.build(config.model, data.schema, data.normaliser)
    step = TrainStep(model, data.train, config, first_stage(config), STEPS, "float32")
    step.begin_epoch(0)
    return step


def rows(seconds: float) -> list[tuple[str, float, float]]:
    """What was done, and what it cost without and with the wide units."""
    found = []
    for preset, size, batch in STEP_KINDS:
        config = override(resolve_config(preset, size, None, ()), {"training.batch_size": batch})
        data = prepare([source()], config, CPU)
        step = training_step(data, planned(config, len(data.train)))
        found.append((f"a training step, {preset}, {size}, batch {batch}", *in_turns(step, seconds)))
    for size in ("compact", "base"):
        config = resolve_config("crossfeed", size, None, ())
        data = prepare([source()], config, CPU)
        model = WorldModel.build(config.model, data.schema, data.normaliser).eval()
        found.append((f"a live forecast, crossfeed, {size}", *in_turns(_live(model), seconds)))
        batch = data.train.batch(torch.arange(128))
        forward = torch.inference_mode()(partial(model, batch))
        found.append((f"128 windows forecast, crossfeed, {size}", *in_turns(forward, seconds)))
    return found


def _live(model: WorldModel) -> Callable[[], object]:
    names = model.schema.sensor_names + model.schema.command_names
    plan = {name: np.zeros(16) for name in model.schema.command_names}
    live, random = LiveForecaster(model), np.random.default_rng(0)

    def next_row() -> None:
        live.push(dict(zip(names, random.normal(size=len(names)))))

    for _ in range(model.config.context):
        next_row()

    def forecast() -> None:
        # The forecaster sets the units itself; undone here, so that the first column is what it says.
        with torch.inference_mode():
            LiveForecaster.forecast.__wrapped__(live, plan)
        next_row()

    return forecast


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    begin_own_command()
    torch.set_num_threads(1)
    lines = [
        "# Products on a CPU",
        "",
        f"{date.today()}, torch {torch.__version__}, one thread, time of the core in milliseconds, the best of turns;",
        f"wide units used here: {'yes' if gains() else 'no, so both columns are the same'}. Made by",
        "`python benchmarks/products.py`.",
        "",
        "| what | without | with | ratio |",
        "|---|---:|---:|---:|",
    ]
    for what, without, wide in rows(asked.seconds):
        lines.append(f"| {what} | {without:.1f} | {wide:.1f} | {without / wide:.2f} |")
        print(lines[-1], flush=True)
    if asked.out:
        asked.out.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
