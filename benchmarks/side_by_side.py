"""Steps a second of 1, 2, 4 and 8 training runs side by side on one GPU, each a process of its own.

    python benchmarks/side_by_side.py source.parquet --sizes base compact --out side_by_side.jsonl

The first process of each size is built alone and fills the compiler's cache; the others follow. When all are ready, one
of them trains for some seconds, then two, and so on. Processes share a GPU well only under the driver's multi-process
service (`nvidia-cuda-mps-control -d`, before this script); without it their kernels take turns.
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
from measuring import keep

from crossfeed.configuration import override
from crossfeed.logs.table import Table
from crossfeed.model.world_model import WorldModel, choose_device
from crossfeed.training.data import prepare
from crossfeed.training.hardware import resolve_precision
from crossfeed.training.run_config import preset
from crossfeed.training.seeds import steps_in_epoch
from crossfeed.training.step import TrainStep

GAP = 0.5  # seconds between two rounds
AT_ONCE = 10  # steps between two looks at the clock
EPOCHS = 200  # of a whole run


def rounds(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Which size trains in how many processes, one round after another."""
    return [(size, together) for size in options.sizes for together in options.together]


def worker(options: argparse.Namespace, size: str, rank: int, folder: Path) -> None:
    """Build, say so, and take part in the rounds of this size with more than `rank` runs."""
    device = choose_device(options.device)
    config = override(preset(options.preset, size), {"training.seed": rank})
    data = prepare([Table.read(options.source)], config, device)
    torch.manual_seed(rank)
    model = WorldModel.build(config.model, data.schema, data.normaliser).to(device)
    steps = steps_in_epoch(len(data.train), config.training.batch_size, None)
    step = TrainStep(model, data.train, config, "pretrain", steps, resolve_precision("auto", device))

    def train_some() -> None:
        step.begin_epoch(0)
        for _ in range(min(AT_ONCE, steps)):
            step()
        step.trace()

    train_some()
    (folder / f"{size}-{rank}.ready").touch()
    while not (folder / "begin").exists():
        time.sleep(0.02)
    begin = float((folder / "begin").read_text())
    for number, (own_size, together) in enumerate(rounds(options)):
        start = begin + number * (options.seconds + GAP)
        if own_size != size or rank >= together:
            continue
        time.sleep(max(0.0, start - time.time()))
        done, since = 0, time.time()
        while time.time() < start + options.seconds:
            train_some()
            done += min(AT_ONCE, steps)
        facts = {"size": size, "together": together, "rank": rank, "steps": done, "steps_of_epoch": steps}
        with (folder / "results").open("a") as results:
            results.write(json.dumps({**facts, "seconds": time.time() - since}) + "\n")


def start(options: argparse.Namespace, folder: Path, ranks: range) -> list[subprocess.Popen[bytes]]:
    """Start the processes of these ranks for every size and wait until all of them are built."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *sys.argv, "--worker"]
    names = [(size, str(rank)) for rank in ranks for size in options.sizes]
    processes = [subprocess.Popen([*command, *name, str(folder)], env=environment) for name in names]
    while not all((folder / f"{size}-{rank}.ready").exists() for size, rank in names):
        if any(process.poll() for process in processes):
            raise SystemExit("a run failed while it was built")
        time.sleep(0.1)
    return processes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--preset", default="mended")
    parser.add_argument("--sizes", nargs="+", default=["base", "compact"])
    parser.add_argument("--together", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=5.0, help="time of each round")
    parser.add_argument("--note", default="", help="kept with every line, for example how the GPU is shared")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        size, rank, folder = options.worker
        worker(options, size, int(rank), Path(folder))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = start(options, folder, range(1)) + start(options, folder, range(1, max(options.together)))
        (folder / "begun").write_text(str(time.time() + 0.5))
        (folder / "begun").rename(folder / "begin")
        for process in processes:
            process.wait()
        rows = [json.loads(line) for line in (folder / "results").read_text().splitlines()]
    for size, together in rounds(options):
        own = [row for row in rows if (row["size"], row["together"]) == (size, together)]
        rate = sum(row["steps"] / row["seconds"] for row in own)
        an_hour = 3600.0 * rate / (EPOCHS * own[0]["steps_of_epoch"])
        facts = {"preset": options.preset, "size": size, "together": together, "note": options.note}
        keep({**facts, "processes": len(own), "steps_a_second": rate, "trainings_an_hour": an_hour}, options.out)


if __name__ == "__main__":
    main()
