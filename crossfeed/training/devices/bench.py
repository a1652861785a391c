"""What a training step costs on this machine, where the time goes, and what a plain pipeline would take.

Windows are synthetic (noise in the canonical channels): the cost of a step does not depend on the values.
B windows, K context rows, C sensors, H horizons, D latent width.
"""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
import torch
from torch import Tensor

from crossfeed.configuration import override
from crossfeed.ingest.table import Group, Table
from crossfeed.model.device import choose_device
from crossfeed.model.jepa.objectives import Stage
from crossfeed.model.world_model import WorldModel
from crossfeed.products import wide_products
from crossfeed.schema import canonical
from crossfeed.training.budget import planned
from crossfeed.training.data import TrainingData, prepare
from crossfeed.training.devices.acceleration import autocast, resolve_precision
from crossfeed.training.devices.flops import step_flops
from crossfeed.training.measure.validate import Validator
from crossfeed.training.run_config import RunConfig, resolve_config
from crossfeed.training.step import TrainStep
from crossfeed.windows.windows import WindowBatch, WindowSet

SESSIONS, ROWS = 9, 160


@dataclass(frozen=True, slots=True)
class Bench:
    """Milliseconds are medians; parts are timed one by one, so on a GPU their sum exceeds a captured step."""

    machine: str
    device: str
    torch: str
    preset: str
    size: str
    batch: int
    precision: str
    threads: int | None
    threads_ms: dict[int, float]
    step_ms: float
    plain_ms: float
    windows_a_second: float
    gigaflop: float
    peak_gigaflops: float
    share_of_peak: float
    parts_ms: dict[str, float]
    peak_gib: float | None


@wide_products()
def bench(
    size: str | None = None,
    preset: str = "crossfeed",
    batch: int | None = None,
    device: str = "auto",
    seconds: float = 4.0,
    settings: tuple[str, ...] = (),
) -> Bench:
    """Measure the step of the first stage; each figure gets about `seconds`."""
    chosen_device = choose_device(device)
    on_gpu = chosen_device.type == "cuda"
    size, batch = size or ("base" if on_gpu else "tiny"), batch or (128 if on_gpu else 32)
    config = override(resolve_config(preset, size, None, settings), {"training.batch_size": batch})
    precision = resolve_precision(config.training.precision, chosen_device)
    data = prepare([synthetic_table(config)], config, chosen_device)
    config = planned(config, len(data.train))
    threads_before, threads_ms = torch.get_num_threads(), dict[int, float]()
    try:
        if not on_gpu:
            threads_ms = _compare_threads(_begin(data, config, precision), seconds)
            torch.set_num_threads(min(threads_ms, key=lambda count: threads_ms[count]))
        plain_ms = _plain(data, override(config, {"training.acceleration": "off"}), precision, seconds)
        step = _begin(data, config, precision)
        step_ms = _timed(step, chosen_device, seconds, warm_up=6 if on_gpu else 1)
        share = step.capacity.share if step.capacity else 1.0
        gigaflop = step_flops(config, len(data.schema.sensors), len(data.schema.commands), share) / 1e9
        peak = _matmul_peak(chosen_device, precision)
        return Bench(
            machine=platform.processor() or platform.machine(),
            device=torch.cuda.get_device_name(chosen_device) if on_gpu else f"CPU, {os.cpu_count()} cores",
            torch=torch.__version__,
            preset=preset,
            size=size,
            batch=batch,
            precision=precision,
            threads=None if on_gpu else torch.get_num_threads(),
            threads_ms=threads_ms,
            step_ms=step_ms,
            plain_ms=plain_ms,
            windows_a_second=1000.0 * batch / step_ms,
            gigaflop=gigaflop,
            peak_gigaflops=peak,
            share_of_peak=gigaflop / (step_ms / 1000.0) / peak,
            parts_ms=_parts(step, data, seconds),
            peak_gib=torch.cuda.max_memory_allocated(chosen_device) / 2**30 if on_gpu else None,
        )
    finally:
        torch.set_num_threads(threads_before)


def synthetic_table(config: RunConfig) -> Table:
    """Sessions of noise, long enough for the configured windows."""
    rows = ROWS + config.model.context + config.model.horizons[-1]
    random, schema = np.random.default_rng(0), canonical()
    return Table(
        schema=schema,
        groups=tuple(
            Group("bench", f"session-{number}", "run", "noise", number * rows, (number + 1) * rows)
            for number in range(SESSIONS)
        ),
        time=np.tile(np.arange(rows, dtype=float), SESSIONS),
        sensors=random.normal(size=(SESSIONS * rows, len(schema.sensors))),
        commands=random.normal(size=(SESSIONS * rows, len(schema.commands))),
        period=1.0,
        manifest={},
    )


def first_stage(config: RunConfig) -> Stage:
    """The stage whose steps are measured: the sensor network has one only."""
    return "pretrain" if "pretrain" in config.training.stages else "finetune"


def _begin(data: TrainingData, config: RunConfig, precision: str) -> TrainStep:
    torch.manual_seed(0)
    model = WorldModel.build(config.model, data.schema, data.normaliser).to(data.train.last_W.device)
    step = TrainStep(model, data.train, config, first_stage(config), 64, precision)
    step.begin_epoch(0)
    return step


def _timed(call: Callable[[], object], device: torch.device, seconds: float, warm_up: int = 1) -> float:
    """Median milliseconds of a call, over about so many seconds and at least three calls."""
    for _ in range(warm_up):
        call()
    _wait(device)
    times: list[float] = []
    while len(times) < 3 or (sum(times) < seconds and len(times) < 50):
        began = time.perf_counter()
        call()
        _wait(device)
        times.append(time.perf_counter() - began)
    return 1000.0 * median(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _compare_threads(step: TrainStep, seconds: float) -> dict[int, float]:
    """One step on one thread, on half of the cores and on all of them; more threads are not always quicker."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = {}
    for count in sorted({1, max(1, cores // 2), cores}):
        torch.set_num_threads(count)
        found[count] = _timed(step, step.device, seconds / 2)
        step.begin_epoch(0)
    return found


def _plain(data: TrainingData, config: RunConfig, precision: str, seconds: float) -> float:
    """The step as one writes it first: windows cut one by one on the host, and every loss is read at once."""
    step, windows = _begin(data, config, precision), data.train
    rows = {name: getattr(windows, name).cpu() for name in ("x_NC", "m_NC", "a_NA", "mean_a_WHA", "last_W")}
    order_W = torch.randperm(len(windows), generator=torch.Generator().manual_seed(0)).tolist()
    device, next_window = step.device, 0

    def one() -> None:
        nonlocal next_window
        chosen = [order_W[(next_window + number) % len(order_W)] for number in range(config.training.batch_size)]
        next_window += len(chosen)
        batch = _cut(rows, windows, chosen, device)
        step.optimiser.zero_grad()
        with autocast(precision, device):
            terms = step.terms(*step.show(batch))
        torch.autograd.backward(step.total(terms))
        step._update(torch.tensor(config.training.ema_momentum, device=device))
        for term in terms.values():
            float(term.detach())

    return _timed(one, device, seconds)


def _cut(rows: dict[str, Tensor], windows: WindowSet, chosen: list[int], device: torch.device) -> WindowBatch:
    """A batch window by window on the host, then copied, as a data loader does it."""
    items = []
    for window in chosen:
        last = int(rows["last_W"][window])
        context, targets = slice(last - windows.context + 1, last + 1), [last + ahead for ahead in windows.horizons]
        items.append(
            {
                "x_BKC": rows["x_NC"][context],
                "m_BKC": rows["m_NC"][context],
                "a_BKA": rows["a_NA"][context],
                "future_x_BHC": rows["x_NC"][targets],
                "future_m_BHC": rows["m_NC"][targets],
                "mean_a_BHA": rows["mean_a_WHA"][window],
                "future_a_BTA": rows["a_NA"][last + 1 : last + 1 + windows.horizons[-1]],
                "last_index_B": rows["last_W"][window],
                "machine_B": torch.tensor(0),
            }
        )
    return WindowBatch(**{name: torch.stack([item[name] for item in items]).to(device) for name in items[0]})


def _parts(step: TrainStep, data: TrainingData, seconds: float) -> dict[str, float]:
    """Each part of a step on its own, and validation for as many windows as a batch has."""
    device, config = step.device, step.config
    index_B = torch.arange(config.training.batch_size, device=device) % len(step.windows)
    batch = step.windows.batch(index_B)
    shown = step.show(batch)
    share = seconds / 5
    found = {
        "gather windows": _timed(lambda: step.windows.batch(index_B), device, share),
        "draw masks": _timed(lambda: step.show(batch), device, share),
    }
    step.model.train()

    def forward() -> Tensor:
        with autocast(step.precision, device):
            terms = step.terms(*shown)
        return step.total(terms)

    def both() -> None:
        step.optimiser.zero_grad()
        torch.autograd.backward(forward())

    found["forward"] = _timed(forward, device, share)
    found["backward"] = max(0.0, _timed(both, device, share) - found["forward"])
    found["optimiser"] = _timed(lambda: step._finish(torch.tensor(0.99, device=device)), device, share)
    validator = Validator(step.model, data.train, data.validation, config, step.precision)
    windows = len(validator.windows_W)
    judge = partial(validator.losses, step.stage) if step.stage == "pretrain" else validator.forecast
    found["validation"] = _timed(judge, device, share, 0) * len(index_B) / windows
    return found


def _matmul_peak(device: torch.device, precision: str) -> float:
    """Billions of floating-point operations a second of a large matrix product in the precision of training."""
    size, kind = (
        (8192, torch.bfloat16 if precision == "bf16" else torch.float32) if device.type == "cuda" else (1024, None)
    )
    a, b = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    return 2.0 * size**3 / (_timed(lambda: a @ b, device, 0.3) / 1000.0) / 1e9
