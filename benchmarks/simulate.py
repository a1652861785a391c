"""How long the simulator takes: the full pair with writing, and its kernel against one call per step.

Run: python benchmarks/simulate.py > benchmarks/simulate.md
"""

import os
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
from measuring import parser, processor

from crossfeed.sim import joanneum, thws
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.cutting import MATERIALS
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.jobs import play
from crossfeed.sim.physics.production import open_shop
from crossfeed.sim.physics.rollout import SimulatedMachine
from crossfeed.sim.simulate import SCALES

SLICE = 2_000  # steps of the slow way


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor seconds of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def kernel() -> tuple[float, float]:
    """Processor microseconds per 2 ms step: a whole program at once, and one call per step on a slice of it."""
    machine = SimulatedMachine(machine_named("spinner_630"), 0.002)
    job = open_shop(machine.parameters, {"FACE_POCKET"}).jobs["FACE_POCKET"]
    inputs = play(job, MATERIALS["aluminium"], 0.002, steps=150_000).inputs
    at_once = timed(lambda: machine.run(inputs, machine.rest()))[1] / len(inputs)
    first = 20_000
    _, start = machine.run(inputs[:first], machine.rest())
    whole, _ = machine.run(inputs[first : first + SLICE], start)
    rows = []

    def step_by_step() -> None:
        state = start
        for index in range(first, first + SLICE):
            trace, state = machine.run(inputs[index : index + 1], state)
            rows.append(trace.sensors)

    each = timed(step_by_step)[1] / SLICE
    assert np.array_equal(np.concatenate(rows), whole.sensors), "both ways must give the same bits"
    return at_once * 1e6, each * 1e6


def what_if() -> float:
    """Processor milliseconds of one 16 s rollout under 1 Hz commands, as a planner asks for it."""
    machine = SimulatedMachine(machine_named("spinner_620"))
    state = machine.rest()
    inputs = DriveInputs.held(np.tile([9000.0, 600.0, 0.0, 0.0], (16, 1)), 50)
    return timed(lambda: [machine.run(inputs, state) for _ in range(50)])[1] / 50 * 1e3


def main() -> None:
    """Print the table."""
    parser(__doc__).parse_args()
    load = os.getloadavg()[0]
    full = SCALES["full"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        joanneum_times = timed(lambda: joanneum.export(out / "joanneum", full.cycles, 0))
        thws_times = timed(lambda: thws.export(out / "thws", full.thws, 0))
        size = sum(path.stat().st_size for path in out.rglob("*.csv")) / 1e6
    pair = tuple(a + b for a, b in zip(joanneum_times, thws_times))
    rows.append((f"JOANNEUM-like, {full.cycles:,} cycles of 2 ms, 11 files", *joanneum_times, "60 s"))
    rows.append((f"THWS-like, {full.thws.raw_rows:,} rows, inner step 20 ms", *thws_times, ""))
    rows.append((f"both, as in `crossfeed simulate --scale full`, {size:.0f} MB of CSV", *pair, "90 s"))
    at_once, each = kernel()
    print("# Simulator")
    cores = f"{os.cpu_count()} CPU cores ({processor()})"
    print(f"\n{date.today()}, {cores}, load average {load:.1f} at the start. `python benchmarks/simulate.py`\n")
    print("| what | wall clock, s | processor, s | to reach |\n|---|---|---|---|")
    for name, wall, busy, goal in rows:
        print(f"| {name} | {wall:.1f} | {busy:.1f} | {goal} |")
    print("\n| kernel, processor time per 2 ms step | µs |\n|---|---|")
    print(f"| vectorised, 150,000 steps at once | {at_once:.2f} |")
    print(f"| one call per step on a slice of {SLICE:,} steps, same bits | {each:.0f} |")
    print(f"| ratio | {each / at_once:.0f} |")
    print(f"\nOne what-if of 16 s under 1 Hz commands (800 steps of 20 ms): {what_if():.1f} ms of processor time.")


if __name__ == "__main__":
    main()
