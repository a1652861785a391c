"""Steps a second of 1, 2, 4 and 8 training runs side by side on one GPU, each a process of its own.

    python benchmarks/side_by_side.py source.parquet --size base --out side_by_side.jsonl

All processes are built first (the compiler's cache is shared); then one of them trains for some seconds, then two, and
so on. Runs an hour = steps a second of all / steps of a run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from crossfeed.ingest.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.training.data import prepare
from crossfeed.training.order import epoch_order, steps_in_epoch
from crossfeed.training.overrides import override
from crossfeed.training.precision import choose_device, resolve_precision
from crossfeed.training.run_config import preset
from crossfeed.training.seeds import generator
from crossfeed.training.step import TrainStep

TOGETHER = (1, 2, 4, 8)
GAP = 0.5


def worker(options: argparse.Namespace, rank: int, folder: Path) -> None:
    """Build, say so, and take part in the rounds with more than `rank` runs."""
    device = choose_device(options.device)
    config = override(preset(options.preset, options.size), {"training.seed": rank})
    data = prepare([Table.read(options.source)], config, device)
    torch.manual_seed(rank)
    model = WorldModel(config.model, data.schema, data.normaliser).to(device)
    if options.wait_for:
        while not options.wait_for.exists():
            time.sleep(0.1)
    size, steps = config.training.batch_size, steps_in_epoch(len(data.train), config.training.batch_size, None)
    precision = resolve_precision("auto", device)
    step = TrainStep(model, data.train, config, "pretrain", steps, precision)
    order = epoch_order(data.train.machine_W.cpu().numpy(), size, steps, generator(0, "order", "pretrain", 0))
    step.begin_epoch(0, order)
    for _ in range(6):
        step()
    step.trace()
    (folder / f"{rank}.ready").touch()
    while not (folder / "begin").exists():
        time.sleep(0.02)
    begin = float((folder / "begin").read_text())
    for number, together in enumerate(TOGETHER):
        start = begin + number * (options.seconds + GAP)
        if rank >= together:
            continue
        time.sleep(max(0.0, start - time.time()))
        done, since = 0, time.time()
        while time.time() < start + options.seconds:
            step.begin_epoch(0, order)
            for _ in range(10):
                step()
            step.trace()
            done += 10
        line = json.dumps({"together": together, "rank": rank, "steps": done, "seconds": time.time() - since})
        with (folder / "results").open("a") as results:
            results.write(line + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--preset", default="crossfeed")
    parser.add_argument("--size", default="base")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=5.0, help="time of each round")
    parser.add_argument("--wait-for", type=Path, help="build only when this file exists")
    parser.add_argument("--begin-when", type=Path, help="measure only when this file exists")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options, int(options.worker[0]), Path(options.worker[1]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *sys.argv, "--worker"]
        processes = [subprocess.Popen([*command, str(rank), name], env=environment) for rank in range(max(TOGETHER))]
        while len(list(folder.glob("*.ready"))) < len(processes):
            if any(process.poll() for process in processes):
                raise SystemExit("a run failed")
            time.sleep(0.1)
        while options.begin_when and not options.begin_when.exists():
            time.sleep(0.1)
        (folder / "begun").write_text(str(time.time() + 0.5))
        (folder / "begun").rename(folder / "begin")
        for process in processes:
            process.wait()
        rows = [json.loads(line) for line in (folder / "results").read_text().splitlines()]
    for together in TOGETHER:
        own = [row for row in rows if row["together"] == together]
        rate = sum(row["steps"] / row["seconds"] for row in own)
        line = json.dumps(
            {"preset": options.preset, "size": options.size, "together": together, "steps_a_second": rate}
        )
        print(line, flush=True)
        if options.out:
            with options.out.open("a") as out:
                out.write(line + "\n")


if __name__ == "__main__":
    main()
