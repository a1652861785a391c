"""Seconds of a two-stage run on one GPU: a few epochs of each stage, compilation, saving and the end of the run apart.

    python benchmarks/gpu_run.py source.parquet --epochs 3 --out benchmarks/gpu_run.json

The time of 100 + 100 epochs is projected from the later epochs of each stage; `--epochs 100` measures it.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from crossfeed.configuration import override
from crossfeed.logs.table import Table
from crossfeed.training.run import train
from crossfeed.training.run_config import preset


def measure(table: Table, name: str, size: str, epochs: int) -> dict[str, Any]:
    """Run both stages and note when each epoch ended."""
    ended: list[tuple[str, float, float, float]] = []
    changes = {
        "training.pretrain_epochs": epochs,
        "training.finetune_epochs": epochs,
        "training.patience": epochs + 1,
    }
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        train(
            table,
            override(preset(name, size), changes),
            Path(folder) / "run",
            on_epoch=lambda row: ended.append(
                (row["stage"], time.perf_counter() - began, row["train_seconds"], row["validation_seconds"])
            ),
        )
    total = time.perf_counter() - began
    facts: dict[str, Any] = {"preset": name, "size": size, "epochs": epochs, "seconds": total, "ended": ended}
    steady = 0.0
    for stage in ("pretrain", "finetune"):
        times = [time for which, time, _, _ in ended if which == stage]
        later = (times[-1] - times[0]) / (len(times) - 1)
        facts[f"{stage}_epoch_seconds"] = later
        steady += later
    facts["overhead_seconds"] = total - epochs * steady
    facts["projected_100_100_seconds"] = facts["overhead_seconds"] + 100 * steady
    facts["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    facts["reserved_gib"] = torch.cuda.max_memory_reserved() / 2**30
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--size", default="base")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    facts = measure(Table.read(options.source), options.preset, options.size, options.epochs)
    if options.out:
        options.out.write_text(json.dumps(facts, indent=1))
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
