"""Time one training step and a short two-stage run on a GPU, the plain path beside the fast one in the same run.

    python benchmarks/gpu_step.py source.parquet --out benchmarks/gpu_step.md

Correctness stands beside speed: with dropout off, both paths start from the same weights and see the same batches and
masks; the table gives the largest relative difference of any loss term over twelve steps (bf16 arithmetic in both).
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet
import torch

from crossfeed.ingest.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.training.data import prepare
from crossfeed.training.order import epoch_order, steps_in_epoch
from crossfeed.training.overrides import override
from crossfeed.training.run import train
from crossfeed.training.run_config import preset
from crossfeed.training.seeds import generator
from crossfeed.training.step import TrainStep

DEVICE = torch.device("cuda")
COMPARED = 12


def begin(table: Table, name: str, changes: dict[str, Any]) -> TrainStep:
    """A step of the pretraining stage at base size, at the beginning of its first epoch."""
    config = override(preset(name, "base"), changes)
    data = prepare([table], config, DEVICE)
    torch.manual_seed(0)
    model = WorldModel(config.model, data.schema, data.normaliser).to(DEVICE)
    steps = steps_in_epoch(len(data.train), config.training.batch_size, None)
    step = TrainStep(model, data.train, config, "pretrain", steps, "bf16")
    order = generator(0, "order", "pretrain", 0)
    step.begin_epoch(0, epoch_order(data.train.machine_W.cpu().numpy(), config.training.batch_size, steps, order))
    return step


def milliseconds(step: TrainStep, count: int = 30) -> float:
    """Median time of a step between device events, after its compilation and capture."""
    for _ in range(8):
        step()
    times = []
    for _ in range(count):
        begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begun.record()
        step()
        ended.record()
        torch.cuda.synchronize()
        times.append(begun.elapsed_time(ended))
    return median(times)


def measure(table: Table, name: str) -> list[dict[str, Any]]:
    """Plain and fast step of one preset, and how far their losses are apart."""
    rows, traces = [], {}
    for path in ("off", "auto"):
        torch._dynamo.reset()
        step = begin(table, name, {"training.acceleration": path, "model.blocks.dropout": 0.0})
        for _ in range(COMPARED):
            step()
        traces[path] = step.trace()[:COMPARED]
        torch._dynamo.reset()
        torch.cuda.reset_peak_memory_stats()
        step = begin(table, name, {"training.acceleration": path})
        rows.append({"preset": name, "path": path, "step_ms": milliseconds(step)})
        rows[-1]["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        print(rows[-1], flush=True)
    apart = ((traces["off"] - traces["auto"]).abs() / traces["off"].abs())[:, :-1].max()
    return [{**row, "largest_loss_difference": float(apart)} for row in rows]


def two_stages(table: Table, epochs: int) -> dict[str, Any]:
    """A short run of the paper preset, for the seconds of an epoch and of its validation."""
    changes = {"training.pretrain_epochs": epochs, "training.finetune_epochs": epochs}
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        result = train(table, override(preset("paper", "base"), changes), Path(folder) / "run")
        history = result.folder / "history.parquet"
        rows = pyarrow.parquet.read_table(history).to_pylist()
    facts = {"seconds": time.perf_counter() - began, "epochs": epochs}
    for stage in ("pretrain", "finetune"):
        last = [row for row in rows if row["stage"] == stage][-1]
        facts[stage] = {name: last[name] for name in ("train_seconds", "validation_seconds")}
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--presets", nargs="*", default=["paper", "crossfeed"])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    table = Table.read(options.source)
    content: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "steps": []}
    for name in options.presets:
        content["steps"] += measure(table, name)
        if "run" not in content:
            content["run"] = two_stages(table, options.epochs)
            print(json.dumps(content), flush=True)
    if options.out:
        options.out.write_text(json.dumps(content, indent=2))
    print(json.dumps(content, indent=2))


if __name__ == "__main__":
    main()
