"""Time a training step on one GPU: the plain path, each optimisation in turn, and how far the results are apart.

    python benchmarks/gpu_step.py source.parquet --out benchmarks/gpu_step.jsonl

Correctness stands beside speed: attention and blocks against float64, on random masks with empty and full rows, and the
loss terms of twelve steps from the same weights, batches and masks on the plain and on the fast path, without dropout.
`--compiler` adds what the library's compiler makes of the plain losses, after a minute of compiling.
"""

import argparse
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from measuring import keep

from crossfeed.configuration import override
from crossfeed.ingest.table import Table
from crossfeed.model.fast import row_operators
from crossfeed.model.fast.acceleration import hash_dropout, pack_tokens, use_attention_kernels, use_row_kernels
from crossfeed.model.jepa.objectives import losses
from crossfeed.model.world_model import WorldModel
from crossfeed.training.data import prepare
from crossfeed.training.devices.acceleration import CapturedStep, TeacherStream, measure_token_capacity
from crossfeed.training.devices.flops import step_flops
from crossfeed.training.order import steps_in_epoch
from crossfeed.training.run_config import preset
from crossfeed.training.step import TrainStep
from crossfeed.training.update.flat_update import FlatUpdate
from crossfeed.training.update.update_kernel import update_flat

DEVICE = torch.device("cuda")
COMPARED = 12
TURNS = ("capture", "attention", "rows", "flat", "beside")  # each with those before it


def build(table: Table, name: str, turns: tuple[str, ...], dropout: float = 0.1) -> TrainStep:
    """A step of the pretraining stage at base size with some of the optimisations, at the beginning of an epoch."""
    config = override(preset(name, "base"), {"training.acceleration": "off", "model.blocks.dropout": dropout})
    data = prepare([table], config, DEVICE)
    torch.manual_seed(0)
    model = WorldModel.build(config.model, data.schema, data.normaliser).to(DEVICE)
    size = config.training.batch_size
    steps = steps_in_epoch(len(data.train), size, None)
    step = TrainStep(model, data.train, config, "pretrain", steps, "bf16")
    if "attention" in turns:
        step.capacity = measure_token_capacity(model, data.train, config, True, size)
        pack_tokens(model, step.capacity.share, step.capacity.lost)
        use_attention_kernels(model, step._dropout)
    if "rows" in turns:
        hash_dropout(model, step._dropout)
        use_row_kernels(model, torch.bfloat16, row_operators)
    if "flat" in turns:
        step._finish = FlatUpdate(model, step.optimiser, config.training.clip_norm, update_flat)
    if "beside" in turns:
        step._losses = partial(losses, see=TeacherStream())
    if "compiler" in turns:
        step._losses = torch.compile(losses, dynamic=False)
    if "capture" in turns:
        step._run = CapturedStep(step._advance, (step.masks,))
    step.begin_epoch(0)
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


def measure(table: Table, name: str, turns: tuple[str, ...]) -> dict[str, Any]:
    """Time and memory of one variant, seconds until it ran, and its arithmetic (absent tokens may be left out)."""
    began = time.perf_counter()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step = build(table, name, turns)
    for _ in range(6):
        step()
    torch.cuda.synchronize()
    built, schema = time.perf_counter() - began, step.model.schema
    share = step.capacity.share if step.capacity else 1.0
    return {
        "preset": name,
        "turns": turns,
        "step_ms": milliseconds(step),
        "build_seconds": built,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
        "teraflop": step_flops(step.config, len(schema.sensors), len(schema.commands), share) / 1e12,
    }


def kernel_errors() -> dict[str, float]:
    """Relative errors of attention outputs and gradients against float64, the largest over several mask densities."""
    from crossfeed.model.fast import kernel_operators
    from crossfeed.model.parts import attention, packing

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


def block_errors() -> dict[str, float]:
    """Relative errors of a block's output and gradients by row kernels against the block in float64, no dropout."""
    from crossfeed.model.fast.fused import WeightCopies
    from crossfeed.model.parts.blocks import Block, BlockConfig

    found, draws = {}, torch.Generator(DEVICE).manual_seed(2)
    for activation in ("relu", "gelu"):
        config = BlockConfig(dropout=0.0, activation=activation)
        torch.manual_seed(0)
        exact = Block(config).to(DEVICE, torch.float64)
        for kind in (torch.bfloat16, torch.float32):
            block = Block(config).to(DEVICE)
            block.load_state_dict(exact.state_dict())
            copies = WeightCopies(block, kind, row_operators)
            copies.refresh()
            block.fused = copies.run
            x = torch.randn(64, 32, 256, generator=draws, device=DEVICE).to(kind).requires_grad_()
            wide = x.detach().double().requires_grad_()
            gradient = torch.randn(x.shape, generator=draws, device=DEVICE)
            exact.zero_grad()
            out, reference = block(x), exact(wide)
            out.backward(gradient.to(out.dtype))
            reference.backward(gradient.double())
            pairs = [(out, reference), (x.grad, wide.grad)]
            pairs += [(p.grad, q.grad) for p, q in zip(block.parameters(), exact.parameters(), strict=True)]
            label = f"block, {activation}, {str(kind).removeprefix('torch.')}"
            found[label] = max(float((own.double() - true).norm() / true.norm()) for own, true in pairs)
    return found


def differences(table: Table) -> dict[str, float]:
    """Largest relative difference of a loss term over some steps without dropout, plain against fast."""
    found = {}
    for name in ("paper", "crossfeed"):
        traces = []
        for turns in ((), TURNS):
            step = build(table, name, turns, 0.0)
            for _ in range(COMPARED):
                step()
            traces.append(step.trace()[:COMPARED, :-1])
        found[name] = float(((traces[0] - traces[1]).abs() / traces[0].abs()).max())
    return found


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


def kernel_table(step: TrainStep, steps: int = 5) -> list[str]:
    """Where the time of a step goes, kernel by kernel."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    totals: dict[str, tuple[int, float]] = {}
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            count, spent = totals.get(event.name, (0, 0.0))
            totals[event.name] = (count + 1, spent + event.device_time_total)
    ranked = sorted(totals.items(), key=lambda item: -item[1][1])
    rows = [f"{spent / steps / 1000:8.3f} ms {count / steps:7.1f} x  {name}" for name, (count, spent) in ranked]
    kernels, busy = (sum(part) / steps for part in zip(*totals.values(), strict=True))
    return [f"{kernels:.0f} kernels, {busy / 1000:.3f} ms", *rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compiler", action="store_true", help="also the plain losses under the library's compiler")
    parser.add_argument("--kernels", type=Path, help="write the time of every kernel of the fast step here")
    options = parser.parse_args()
    table = Table.read(options.source)

    note = partial(keep, out=options.out)
    note({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "matmul_tflops": matmul_peak()})
    for name in ("paper", "crossfeed"):
        for count in range(len(TURNS) + 1):
            note(measure(table, name, TURNS[:count]))
    note({"errors": kernel_errors() | block_errors()})
    note({"differences": differences(table)})
    if options.kernels:
        step = build(table, "paper", TURNS)
        for _ in range(6):
            step()
        options.kernels.write_text("\n".join(kernel_table(step)) + "\n")
    if options.compiler:
        note(measure(table, "paper", ("compiler", "capture")))


if __name__ == "__main__":
    main()
