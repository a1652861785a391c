"""One training step of the crossfeed preset, plain, captured and compiled, and a whole run from a cold start.

    python benchmarks/sensor_step.py source.parquet --out benchmarks/sensor_step.jsonl

On a CPU there is nothing to capture, so only the plain step is timed.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from measuring import keep

from crossfeed.configuration import override
from crossfeed.ingest.table import Table
from crossfeed.model.device import choose_device
from crossfeed.model.world_model import WorldModel
from crossfeed.training.data import prepare
from crossfeed.training.devices.acceleration import resolve_precision
from crossfeed.training.run import train
from crossfeed.training.run_config import preset
from crossfeed.training.step import TrainStep

WARM_UP, TIMED = 20, 100


def wait(device: torch.device) -> None:
    """Until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def step_ms(table: Table, size: str, precision: str, acceleration: str, device: torch.device) -> dict[str, Any]:
    """Milliseconds of a step of 128 windows."""
    settings = {"training.finetune_epochs": 1, "training.acceleration": acceleration, "training.precision": precision}
    config = override(preset("crossfeed", size), settings)
    data = prepare([table], config, device)
    torch.manual_seed(0)
    model = WorldModel.build(config.model, data.schema, data.normaliser).to(device)
    resolved = resolve_precision(config.training.precision, device)
    step = TrainStep(model, data.train, config, "finetune", WARM_UP + TIMED, resolved)
    step.begin_epoch(0)
    for _ in range(WARM_UP):
        step()
    wait(device)
    began = time.perf_counter()
    for _ in range(TIMED):
        step()
    wait(device)
    facts = {"size": size, "precision": resolved, "acceleration": acceleration, "captured": step.captured}
    return facts | {"ms": (time.perf_counter() - began) / TIMED * 1e3}


def run_seconds(table: Table, size: str, device: torch.device) -> dict[str, Any]:
    """Seconds of a whole run with the default budget: windows, steps, validation, calibration, files."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        result = train(table, preset("crossfeed", size), Path(folder) / "run", device=str(device))
    stage = result.summary["stages"]["finetune"]
    facts = {"run": size, "seconds": time.perf_counter() - began, "epochs": stage["epochs"]}
    peak = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
    return facts | {"peak_gib": peak, "validation": result.summary["validation"]["model"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sizes", nargs="*", default=["compact", "base"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    table, device = Table.read(options.source), choose_device(options.device)
    for size in options.sizes:
        for acceleration in ("off", "auto", "compile") if device.type == "cuda" else ("off",):
            for precision in ("auto", "float32") if device.type == "cuda" else ("float32",):
                keep(step_ms(table, size, precision, acceleration, device), options.out)
    keep(run_seconds(table, options.sizes[-1], device), options.out)


if __name__ == "__main__":
    main()
