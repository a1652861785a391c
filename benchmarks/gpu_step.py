"""Time a training step on one GPU: the plain path, each optimisation in turn, and how far the results are apart.

    python benchmarks/gpu_step.py source.parquet --out gpu_step.jsonl

Every variant is built in a process of its own, all at the same time; then they take turns on the GPU. Correctness
stands beside speed: kernels against float64 on random masks with empty and full rows, and, with dropout off, the loss
terms of twelve steps from the same weights, batches and masks on the plain and on the fast path.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from turns import note, own_turn, run_together

from crossfeed.ingest.table import Table
from crossfeed.model.acceleration import compile_parts, hash_dropout, pack_tokens, use_kernels
from crossfeed.model.objectives import Terms, losses, predict_views
from crossfeed.model.world_model import WorldModel
from crossfeed.training.acceleration import CapturedStep, LossesBeside, measure_room
from crossfeed.training.cost import step_flops
from crossfeed.training.data import prepare
from crossfeed.training.flat_update import FlatUpdate
from crossfeed.training.order import epoch_order, steps_in_epoch
from crossfeed.training.overrides import override
from crossfeed.training.run_config import preset
from crossfeed.training.seeds import generator
from crossfeed.training.step import TrainStep

DEVICE = torch.device("cuda")
COMPARED = 12
PATIENCE = float(os.environ.get("PATIENCE", "240"))  # seconds until a slow variant is no longer waited for
WHOLE = ("compile", "capture", "kernels", "hash", "flat")  # the losses compiled as one function
FAST = ("blocks", "capture", "kernels", "hash", "flat", "beside")
# One process each. Later lists of a process leave something out that needs no new compilation.
VARIANTS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "paper, plain": ("paper", ((),)),
    "paper, compiled": ("paper", (WHOLE[:2], WHOLE[:1])),
    "paper, kernels": ("paper", (WHOLE[:3],)),
    "paper, hash": ("paper", (WHOLE, WHOLE[:4])),
    "paper, fast": ("paper", (FAST, FAST[:-1])),
    "crossfeed, plain": ("crossfeed", ((),)),
    "crossfeed, fast": ("crossfeed", (FAST,)),
    "checks": ("paper", ()),
}


def build(table: Table, name: str, turns: tuple[str, ...], dropout: float) -> TrainStep:
    """A step of the pretraining stage at base size with some of the optimisations, at the beginning of an epoch."""
    config = override(preset(name, "base"), {"training.acceleration": "off", "model.blocks.dropout": dropout})
    data = prepare([table], config, DEVICE)
    torch.manual_seed(0)
    model = WorldModel(config.model, data.schema, data.normaliser).to(DEVICE)
    size = config.training.batch_size
    steps = steps_in_epoch(len(data.train), size, None)
    step = TrainStep(model, data.train, config, "pretrain", steps, "bf16")
    if "kernels" in turns:
        step.room = measure_room(model, data.train, config, True, size)
        pack_tokens(model, step.room.share, step.room.lost)
        use_kernels(model, step._dropout)
    if "hash" in turns:
        hash_dropout(model, step._dropout)
    if "flat" in turns:
        step._finish = FlatUpdate(model, step.optimiser, config.training.clip_norm)
    if "compile" in turns:
        step._losses = torch.compile(losses, dynamic=False)
    if "blocks" in turns:
        step._losses = LossesBeside(compile_parts(model))
    if "capture" in turns:
        step._run = CapturedStep(step._advance, (step.masks,))
    order = generator(0, "order", "pretrain", 0)
    step.begin_epoch(0, epoch_order(data.train.machine_W.cpu().numpy(), size, steps, order))
    return step


def milliseconds(step: TrainStep, count: int = 40) -> float:
    """Median time of a step between device events."""
    times = []
    for _ in range(count):
        begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begun.record()
        step()
        ended.record()
        torch.cuda.synchronize()
        times.append(begun.elapsed_time(ended))
    return median(times)


def kernel_errors() -> dict[str, float]:
    """Relative errors of kernel outputs and gradients against float64, the largest over several mask densities."""
    from crossfeed.model import attention, kernel_operators, packing

    found: dict[str, float] = {}

    def note(what: str, value: torch.Tensor, exact: torch.Tensor) -> None:
        error = float((value.double() - exact).norm() / exact.norm())
        found[what] = max(found.get(what, 0.0), error)

    seed, draws = torch.zeros(1, dtype=torch.long, device=DEVICE), torch.Generator(DEVICE).manual_seed(1)
    for share in (0.05, 0.5, 0.85, 1.0):
        m_RC = torch.rand(512, 17, generator=draws, device=DEVICE) < share
        m_RC[3], m_RC[4] = False, True
        packed = packing.pack(m_RC, int(m_RC.sum()) + 77)
        for kind in (torch.bfloat16, torch.float32):
            qkv = torch.randn(len(packed.token_N), 3, 256, generator=draws, device=DEVICE).to(kind).requires_grad_()
            exact = qkv.detach().double().requires_grad_()
            out = kernel_operators.attend_packed(qkv, packed.sequences, 8, 0.0, seed)
            reference = attention.attend_packed(exact, packed.sequences, 8, 0.0)
            gradient = torch.randn(out.shape, generator=draws, device=DEVICE).to(kind)
            out.backward(gradient)
            reference.backward(gradient.double())
            label = str(kind).removeprefix("torch.")
            note(f"attention, {label}", out, reference)
            note(f"attention gradient, {label}", qkv.grad, exact.grad)
    return found


def leave_out(step: TrainStep, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    """Take an optimisation back that is not part of the compiled losses."""
    for gone in set(before) - set(after):
        if gone == "flat":
            step.optimiser.state.clear()
            step._finish = step._update
        if gone == "beside":
            step._losses = in_turn(step._losses._terms)
    step._run = CapturedStep(step._advance, (step.masks,)) if "capture" in after else step._advance
    for _ in range(4):
        step()


def in_turn(terms: Terms) -> Callable[..., dict[str, torch.Tensor]]:
    """The losses with the teacher after the student, on the same stream."""

    def losses_in_turn(model: WorldModel, batch: Any, views: Any, stage: Any, config: Any, generator: Any) -> Any:
        full, reduced = predict_views(model, batch, views, stage, config)
        target_BHD = model.encode_target(batch, full.context.statistics)
        return terms(model, batch, full, reduced, target_BHD, stage, config, generator)

    return losses_in_turn


def differences(table: Table) -> dict[str, float]:
    """Largest relative difference of a loss term over some steps without dropout: plain against fast, not compiled."""
    found = {}
    for name in ("paper", "crossfeed"):
        traces = []
        for turns in ((), ("kernels", "hash", "flat")):
            step = build(table, name, turns, 0.0)
            for _ in range(COMPARED):
                step()
            traces.append(step.trace()[:COMPARED, :-1])
        found[name] = float(((traces[0] - traces[1]).abs() / traces[0].abs()).max())
    return found


def compiled_difference(table: Table, name: str, trace_ST: torch.Tensor) -> float:
    """The same for the fast path with dropout, compiled against not compiled: a hash drops the same entries in both."""
    step = build(table, name, ("kernels", "hash", "flat"), 0.1)
    for _ in range(COMPARED):
        step()
    other_ST = step.trace()[:COMPARED, :-1]
    return float(((trace_ST[:, :-1] - other_ST).abs() / other_ST.abs()).max())


def worker(name: str, source: Path, folder: Path) -> None:
    """Build a variant, wait for the others, then measure alone."""
    preset_name, lists = VARIANTS[name]
    began, table = time.perf_counter(), Table.read(source)
    if lists:
        step = build(table, preset_name, lists[0], 0.1)
        for _ in range(COMPARED):
            step()
        trace_ST = step.trace()[:COMPARED]
    built, known = time.perf_counter() - began, {"variant": name, "preset": preset_name}
    with own_turn(folder, name, len(VARIANTS), PATIENCE):
        for before, turns in zip((None, *lists), lists, strict=False):
            if before is not None:
                leave_out(step, before, turns)
            torch.cuda.reset_peak_memory_stats()
            facts = {"turns": turns, "step_ms": milliseconds(step), "build_seconds": built}
            facts |= {"peak_gib": torch.cuda.max_memory_allocated() / 2**30, "teraflop": teraflop(step)}
            note(folder, {**known, **facts})
        if name.endswith("fast"):
            note(folder, {**known, "compiled_difference": compiled_difference(table, preset_name, trace_ST)})
        if name == "checks":
            note(folder, {"errors": kernel_errors(), "matmul_tflops": matmul_peak()})
            note(folder, {"differences": differences(table)})


def teraflop(step: TrainStep) -> float:
    """The arithmetic of a step, absent tokens only where the variant computes on them."""
    schema = step.model.schema
    share = step.room.share if step.room else 1.0
    return step_flops(step.config, len(schema.sensors), len(schema.commands), share) / 1e12


def matmul_peak(size: int = 8192) -> float:
    """Terafloating-point operations a second of a large bf16 matrix product on random data."""
    a, b = (torch.randn(size, size, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begun.record()
    for _ in range(10):
        a @ b
    ended.record()
    torch.cuda.synchronize()
    return 10 * 2 * size**3 / begun.elapsed_time(ended) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker[0], options.source, Path(options.worker[1]))
        return
    head = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for row in run_together(list(VARIANTS), options.out, head):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
