"""A training step: plain, captured and compiled, its parts, its share of the arithmetic peak, and a usual pipeline.

    python benchmarks/train_step.py --preset mended --sizes tiny base --pipeline
    python benchmarks/train_step.py --preset paper --sizes base --batch 128 --device cuda --table source.parquet --parts

One line of JSON for each size and kind of acceleration; on a CPU there is nothing to capture and nothing is compiled.
`--pipeline` adds the same model and losses fed by a per-item pandas data set in a loop that reads every loss.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from measuring import keep, parser, processor
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

from crossfeed.configuration import override
from crossfeed.logs.table import Group, Table
from crossfeed.model.interface import Stage, Views
from crossfeed.model.world_model import WorldModel, choose_device
from crossfeed.processes import wide_products
from crossfeed.schema import canonical
from crossfeed.training.data import TrainingData, prepare
from crossfeed.training.hardware import autocast, resolve_precision
from crossfeed.training.run_config import RunConfig, preset
from crossfeed.training.step import TrainStep
from crossfeed.training.validate import Validator
from crossfeed.windows.windows import WindowBatch

SESSIONS, ROWS = 62, 480
STEPS, WARM_UP = 512, 6  # on a GPU the step is captured after the warm-up


def source() -> Table:
    """Levels that change every 40 rows with a little noise, as large as the paper's source."""
    schema, random, count = canonical(), np.random.default_rng(0), SESSIONS * ROWS
    levels = np.repeat(random.normal(size=(count // 40, 21)), 40, axis=0) + 0.05 * random.normal(size=(count, 21))
    groups = tuple(Group("a", f"s{n:02d}", "r", "p", n * ROWS, (n + 1) * ROWS) for n in range(SESSIONS))
    time_N = np.tile(np.arange(float(ROWS)), SESSIONS)
    return Table(schema, groups, time_N, levels[:, :17], levels[:, 17:], 1.0, {})


def first_stage(config: RunConfig) -> Stage:
    """The stage whose steps are measured: the sensor network has one only."""
    return "pretrain" if "pretrain" in config.training.stages else "finetune"


def our_step(data: TrainingData, config: RunConfig, precision: str) -> TrainStep:
    """A step at the beginning of an epoch."""
    torch.manual_seed(0)
    model = WorldModel.build(config.model, data.schema, data.normaliser).to(data.train.last_W.device)
    steps = min(STEPS, len(data.train) // config.training.batch_size)
    step = TrainStep(model, data.train, config, first_stage(config), steps, precision)
    step.begin_epoch(0)
    return step


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
            losses = model.losses(batch, Views(m, reduced), "pretrain", config.objectives)
        loss = losses.total(config.objectives.active("pretrain"))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        model.update_target(0.996)
        _ = {name: term.item() for name, term in losses.terms.items()}
        return waited

    return step


def parts(step: TrainStep, data: TrainingData, seconds: float) -> dict[str, float]:
    """Milliseconds of each part of a plain step, and of validation for as many windows as a batch has."""
    index_B = torch.arange(step.config.training.batch_size, device=step.device) % len(step.windows)
    shown = step.show(step.windows.batch(index_B))
    weights = step.config.objectives.active(step.stage)
    validator = Validator(step.model, data.train, data.validation, step.config, step.precision)
    judge = partial(validator.losses, step.stage) if step.stage == "pretrain" else validator.forecast

    def forward() -> torch.Tensor:
        with autocast(step.precision, step.device):
            return step.losses(*shown).total(weights)

    def both() -> None:
        step.optimiser.zero_grad()
        forward().backward()

    calls = {
        "gather windows": partial(step.windows.batch, index_B),
        "draw masks": partial(step.show, step.windows.batch(index_B)),
        "forward": forward,
        "forward and backward": both,
        "optimiser": partial(step.update, torch.tensor(0.99, device=step.device)),
        "validation": judge,
    }
    found = {name: milliseconds(call, seconds / len(calls), step.device)[0] for name, call in calls.items()}
    return found | {"validation": found["validation"] * len(index_B) / len(validator.windows_W)}


def milliseconds(call: Callable[[], Any], seconds: float, device: torch.device, warm_up: int = 1) -> tuple[float, int]:
    """Median time of a call, over about so many seconds, and how many calls these were."""
    clock = time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    taken: list[float] = []
    for number in range(warm_up + STEPS // 2):
        _finish(device)
        start = clock()
        call()
        _finish(device)
        if number >= warm_up:
            taken.append(clock() - start)
        if len(taken) >= 2 and sum(taken) > seconds:
            break
    return 1e3 * statistics.median(taken), len(taken)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def gigaflop(data: TrainingData, config: RunConfig, precision: str) -> float:
    """Billions of floating-point operations of a plain step, as the library counts them."""
    step = our_step(data, override(config, {"training.acceleration": "off"}), precision)
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops() / 1e9


def peak_gigaflops(device: torch.device, precision: str) -> float:
    """Billions of operations a second of a large matrix product in the precision of training."""
    size, kind = (8192, torch.bfloat16 if precision == "bf16" else None) if device.type == "cuda" else (1024, None)
    one, two = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    return 2.0 * size**3 / milliseconds(partial(torch.matmul, one, two), 0.3, device)[0] / 1e6


def measure(table: Table, size: str, acceleration: str, asked: Any, device: torch.device) -> dict[str, Any]:
    """One line of the result."""
    changes = {"training.batch_size": asked.batch, "training.acceleration": acceleration, "training.finetune_epochs": 1}
    config = override(preset(asked.preset, size), changes)
    precision = resolve_precision(config.training.precision, device)
    data = prepare([table], config, device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    step = our_step(data, config, precision)
    for _ in range(WARM_UP if step.captured else 1):
        step()
    _finish(device)
    built = time.perf_counter() - began
    step_ms, count = milliseconds(step, asked.seconds, device)
    work = gigaflop(data, config, precision)
    facts = {
        "preset": asked.preset, "size": size, "batch": asked.batch, "precision": precision, "captured": step.captured,
        "compiled": step.compiled, "build_seconds": built, "step_ms": step_ms, "steps": count, "gigaflop": work,
        "share_of_peak": work / (step_ms / 1e3) / peak_gigaflops(device, precision),
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None,
    }  # fmt: skip
    if asked.parts:
        plain = our_step(data, override(config, {"training.acceleration": "off"}), precision)
        facts["parts_ms"] = parts(plain, data, asked.seconds)
    if asked.pipeline:
        waits: list[float] = []
        usual = plain_loop(table, data, config, device)
        facts["pipeline_ms"], _ = milliseconds(lambda: waits.append(usual()), asked.seconds, device)
        facts["pipeline_waits_ms"] = 1e3 * statistics.median(waits)
    return facts


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--table", type=Path, help="rows to train on; without it, as many as the paper's source has")
    options.add_argument("--preset", default="crossfeed")
    options.add_argument("--sizes", nargs="*", default=["compact"])
    options.add_argument("--batch", type=int, default=128)
    options.add_argument("--device", default="auto")
    options.add_argument("--threads", type=int, nargs="*", default=[1], help="threads of torch on a CPU")
    options.add_argument("--seconds", type=float, default=15.0)
    options.add_argument("--parts", action="store_true")
    options.add_argument("--pipeline", action="store_true", help="of a preset that pretrains")
    options.add_argument("--out", type=Path)
    asked = options.parse_args()
    device, table = choose_device(asked.device), Table.read(asked.table) if asked.table else source()
    on_gpu = device.type == "cuda"
    where = torch.cuda.get_device_name(device) if on_gpu else processor()
    keep({"device": where, "torch": torch.__version__}, asked.out)
    for size in asked.sizes:
        for acceleration in ("off", "auto", "compile") if on_gpu else ("off",):
            for threads in (None,) if on_gpu else asked.threads:
                if threads:
                    torch.set_num_threads(threads)
                with wide_products():
                    keep({"threads": threads, **measure(table, size, acceleration, asked, device)}, asked.out)


if __name__ == "__main__":
    main()
