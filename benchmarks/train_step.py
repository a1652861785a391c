"""What a training step costs, beside the usual way: a DataLoader over pandas rows and a loop that reads every loss.

    python benchmarks/train_step.py                             # on the CPU; rewrites benchmarks/train_step.md
    python benchmarks/train_step.py --device cuda --batch 128

Both sides train the same model on the same windows with the same losses, pretraining stage, both views. The table is
synthetic: 62 sessions of 480 rows with the 17 + 4 canonical channels, which is the size of the paper's source. Each
measurement takes the median of as many steps as fit into --seconds, at least two after one to warm up. On one CPU
thread
the process's own time is taken, which other work on the machine hardly disturbs; otherwise the wall clock.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import numpy as np
import pandas
import torch
from measuring import processor
from torch.utils.data import DataLoader, Dataset

from crossfeed.configuration import override
from crossfeed.ingest.table import Group, Table
from crossfeed.model.device import choose_device
from crossfeed.model.jepa.objectives import Views, losses, total
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import canonical
from crossfeed.training.data import TrainingData, prepare
from crossfeed.training.devices.acceleration import autocast, resolve_precision
from crossfeed.training.run_config import RunConfig, preset
from crossfeed.training.step import TrainStep
from crossfeed.windows.windows import WindowBatch

SESSIONS, ROWS = 62, 480
STEPS = 512


def source() -> Table:
    """Levels that change every 40 rows with a little noise, as large as the paper's source."""
    schema, random, count = canonical(), np.random.default_rng(0), SESSIONS * ROWS
    levels = np.repeat(random.normal(size=(count // 40, 21)), 40, axis=0) + 0.05 * random.normal(size=(count, 21))
    groups = tuple(Group("a", f"s{n:02d}", "r", "p", n * ROWS, (n + 1) * ROWS) for n in range(SESSIONS))
    time_N = np.tile(np.arange(float(ROWS)), SESSIONS)
    return Table(schema, groups, time_N, levels[:, :17], levels[:, 17:], 1.0, {})


class PandasWindows(Dataset):
    """One window per item, cut from a data frame; masks drawn item by item, as many public repositories do."""

    def __init__(self, table: Table, data: TrainingData, config: RunConfig) -> None:
        frame = pandas.DataFrame(data.normaliser.transform_sensors(table.sensors), columns=table.schema.sensor_names)
        commands = data.normaliser.transform_commands(table.commands)
        self.frame = frame.assign(**dict(zip(table.schema.command_names, commands.T, strict=True)))
        self.sensors, self.commands = list(table.schema.sensor_names), list(table.schema.command_names)
        origin_N2, last_W = data.train.origin_N2, data.train.last_W.cpu().numpy()
        self.rows = origin_N2[last_W, 1]
        self.config = config

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, item: int) -> tuple[torch.Tensor, ...]:
        last, model, masks = int(self.rows[item]), self.config.model, self.config.masks
        context = self.frame.iloc[last - model.context + 1 : last + 1]
        future = self.frame.iloc[last + 1 : last + model.horizons[-1] + 1]
        targets = future.iloc[[horizon - 1 for horizon in model.horizons]]
        means = np.stack([future[self.commands].iloc[:horizon].mean() for horizon in model.horizons])
        kept = np.random.rand(len(self.sensors)) > masks.channel_drop
        reduced = kept & (np.random.rand(len(self.sensors)) < self.config.objectives.schema_keep)
        arrays = (
            context[self.sensors].to_numpy(np.float32),
            np.broadcast_to(kept, (model.context, len(kept))),
            np.broadcast_to(reduced, (model.context, len(kept))),
            context[self.commands].to_numpy(np.float32),
            targets[self.sensors].to_numpy(np.float32),
            means.astype(np.float32),
            future[self.commands].to_numpy(np.float32),
        )
        return tuple(torch.from_numpy(np.array(array)) for array in arrays)


def plain_loop(table: Table, data: TrainingData, config: RunConfig, device: torch.device) -> Callable[[], float]:
    """The usual loop; a call does one step and returns the seconds it waited for data."""
    model = WorldModel.build(config.model, data.schema, data.normaliser).to(device)
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-4)
    loader = DataLoader(PandasWindows(table, data, config), config.training.batch_size, shuffle=True, drop_last=True)
    precision = resolve_precision("auto", device)

    def forever() -> Iterator[list[torch.Tensor]]:
        while True:
            yield from loader

    batches = forever()

    def step() -> float:
        began = time.process_time()
        x, m, reduced, a, future_x, mean_a, future_a = (part.to(device) for part in next(batches))
        waited = time.process_time() - began
        nothing = torch.zeros(len(x), dtype=torch.long, device=device)
        present = torch.ones_like(future_x, dtype=torch.bool)
        batch = WindowBatch(x, torch.ones_like(m), a, future_x, present, mean_a, future_a, nothing, nothing)
        with autocast(precision, device):
            terms = losses(model, batch, Views(m, reduced), "pretrain", config.objectives)
        loss = total(terms, config.objectives.active("pretrain"))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        model.update_target(0.996)
        _ = {name: term.item() for name, term in terms.items()}
        return waited

    return step


def our_step(data: TrainingData, config: RunConfig, device: torch.device) -> Callable[[], None]:
    """A call does one step of crossfeed's own; epochs start anew when they end."""
    model = WorldModel.build(config.model, data.schema, data.normaliser).to(device)
    steps = min(STEPS, len(data.train) // config.training.batch_size)
    step = TrainStep(model, data.train, config, "pretrain", steps, resolve_precision("auto", device))
    step.begin_epoch(0)
    return step


def measure(call: Callable[[], float | None], seconds: float, device: torch.device) -> tuple[float, float, int]:
    """Median milliseconds of a call and of what it says it waited, over so many calls."""
    call()
    clock = time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    taken, waited, began = [], [], time.perf_counter()
    while len(taken) < 2 or (time.perf_counter() - began < seconds and len(taken) < STEPS - 2):
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = clock()
        waited.append(call() or 0.0)
        if device.type == "cuda":
            torch.cuda.synchronize()
        taken.append(clock() - start)
    return 1e3 * statistics.median(taken), 1e3 * statistics.median(waited), len(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sizes", default="tiny,compact,base")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch on a CPU")
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    device = choose_device(options.device)
    torch.set_num_threads(options.threads)
    table, rows = source(), []
    for size in options.sizes.split(","):
        for label, changes in (("", {}), (", demo settings", DEMO)) if size == "tiny" else (("", {}),):
            config = override(preset("mended", size), {"training.batch_size": options.batch, **changes})
            data = prepare([table], config, device)
            ours, _, count = measure(our_step(data, config, device), options.seconds, device)
            plain, waited, _ = measure(plain_loop(table, data, config, device), options.seconds, device)
            rows.append(
                f"| {size}{label} | {ours:,.0f} | {plain:,.0f} | {waited:,.0f} | {plain / ours:.2f} | {count} |"
            )
            print(rows[-1], flush=True)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    threads = (
        f"{torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''}"
        if device.type == "cpu"
        else resolve_precision("auto", device)
    )
    text = HEADER.format(device=f"{name}, {threads}", batch=options.batch, torch=torch.__version__, day=date.today())
    place = Path(__file__).with_name(f"train_step{'' if device.type == 'cpu' else '_' + device.type}.md")
    place.write_text(text + "\n".join(rows) + "\n", encoding="utf-8")


DEMO = {"model.blocks.dropout": 0.0, "model.encoder.channel_layers": 1}
HEADER = """# A training step

{device}; batch {batch}, pretraining stage, both views, 17 sensors, 32 rows; torch {torch}; {day}.
Made by `python benchmarks/train_step.py`; milliseconds, medians. "DataLoader" is the same model and the same losses fed
by a per-item pandas data set in a loop that reads every loss; "of that, data" is what it waits for its batch.

| size | crossfeed | DataLoader | of that, data | factor | steps |
|---|---:|---:|---:|---:|---:|
"""


if __name__ == "__main__":
    main()
