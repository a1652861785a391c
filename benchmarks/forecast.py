"""What a forecast costs on a CPU: one live forecast, and 2,457 overlapping windows.

`python benchmarks/forecast.py` rewrites benchmarks/forecast.md. It counts the CPU time of one thread, so that other
jobs on the machine matter less (they still take cache and memory bandwidth away). The weights are random, which changes
no cost. The sessions are synthetic: 13 of 236 rows with 10 of the 17 sensors give as many windows as the target machine
of the paper; one of them is run and scaled up.
"""

import os
import platform
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import identity_normaliser, parser, processor, sessions
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from crossfeed.evaluation.opened_model import WorldModelForecaster
from crossfeed.model.config import JepaConfig, Size
from crossfeed.model.live import LiveForecaster, PackedLinear, has_bfloat16, packed
from crossfeed.model.presets import crossfeed, mended, paper
from crossfeed.model.world_model import WorldModel
from crossfeed.processes import wide_products
from crossfeed.schema import canonical
from crossfeed.windows.windows import WindowSet

SCHEMA = canonical()
SHARED = 10
SESSIONS, MEASURED, ROWS = 13, 1, 236
KINDS = (
    ("crossfeed", "base", None),
    ("crossfeed", "compact", None),
    ("mended", "base", "centred"),
    ("mended", "base", "none"),
    ("paper", "base", "none"),
)


def model(name: str, size: Size, kind: str | None) -> WorldModel:
    """An untrained model of a preset; those of the paper's network with the given instance normalisation."""
    config = {"crossfeed": crossfeed, "mended": mended, "paper": paper}[name](size).model
    torch.manual_seed(0)
    if isinstance(config, JepaConfig):
        norm = config.instance_norm.model_copy(update={"kind": kind})
        config = config.model_copy(update={"instance_norm": norm})
    return WorldModel.build(config, SCHEMA, identity_normaliser()).eval()


def milliseconds(action: Callable[[], object], repeats: int = 60) -> str:
    """Mean CPU time after a warm-up."""
    for _ in range(3):
        action()
    start = time.process_time()
    for _ in range(repeats):
        action()
    return f"{1e3 * (time.process_time() - start) / repeats:.1f}"


def live_costs(net: WorldModel, values: np.ndarray) -> list[str]:
    """One new row: without cache, live, live in bfloat16, live with a tolerance; then another plan for the same row."""
    names = SCHEMA.sensor_names + SCHEMA.command_names
    plan = {name: np.zeros(16) for name in SCHEMA.command_names}
    history = dict(zip(names, values[:32].T))
    cells = [milliseconds(lambda: net.forecast(history, plan))]
    for precision, tolerance in (("float32", 0.0), ("bfloat16", 0.0), ("float32", 0.05)):
        if precision == "bfloat16" and not has_bfloat16():
            cells.append("-")
            continue
        live = LiveForecaster(net, tolerance, "bfloat16" if precision == "bfloat16" else "float32")
        feed = iter(values)
        for _ in range(32):
            live.push(dict(zip(names, next(feed))))
        cells.append(milliseconds(partial(_next_row, live, feed, names, plan)))
    return [*cells, milliseconds(lambda: live.forecast(plan))]


def _next_row(live: LiveForecaster, feed: Iterator[np.ndarray], names: Sequence[str], plan: dict[str, Any]) -> None:
    live.push(dict(zip(names, next(feed))))
    live.forecast(plan)


@wide_products()
def evaluation_costs(net: WorldModel, windows: WindowSet) -> list[str]:
    """All windows: through `forward`, and as evaluated with packed weights."""
    parts = [torch.arange(start, min(start + 128, len(windows))) for start in range(0, len(windows), 128)]

    def forward() -> None:
        with torch.inference_mode():
            for part in parts:
                net(windows.batch(part))

    def evaluated(twin: WorldModel) -> None:
        forecaster = WorldModelForecaster(twin).reading(windows)
        with torch.inference_mode():
            for part in parts:
                forecaster.predict(windows.batch(part))

    cells = []
    for action in (forward, partial(evaluated, packed(net))):
        start = time.process_time()
        action()
        cells.append(f"{(time.process_time() - start) * SESSIONS / MEASURED:.1f}")
    return cells


def measure() -> tuple[list[list[str]], list[list[str]]]:
    """Both tables."""
    torch.set_num_threads(1)
    table = sessions(MEASURED, ROWS, SHARED)
    filler = 0.1 * np.sin(np.arange(len(table)))[:, None]
    machines = {17: np.where(np.isnan(table.sensors), filler, table.sensors), SHARED: table.sensors}
    live, evaluated = [], []
    for preset, size, kind in KINDS:
        net, name = model(preset, size, kind), [preset, size, kind or "its own"]
        for sensors, values in machines.items():
            rows = np.concatenate([values, table.commands], axis=1)
            live.append([*name, str(sensors), *live_costs(net, rows)])
            print(live[-1], flush=True)
        windows = WindowSet.build(table, None, identity_normaliser())
        evaluated.append([*name, f"{len(windows) * SESSIONS // MEASURED:,}", *evaluation_costs(net, windows)])
        print(evaluated[-1], flush=True)
    return live, evaluated


def operations(net: WorldModel) -> int:
    """Floating-point operations of the matrix products of one forecast."""
    names = SCHEMA.sensor_names + SCHEMA.command_names
    history = {name: np.sin(np.arange(32.0)) for name in names}
    with FlopCounterMode(display=False) as counter:
        net.forecast(history, {name: np.zeros(16) for name in SCHEMA.command_names})
    return counter.get_total_flops()


def product_speed() -> float:
    """Operations a second of a packed product like those of the queries, undisturbed: the best of many."""
    queries, width, out = 85, 256, 512
    linear, x = nn.Linear(width, out), torch.randn(1, queries, width)
    layer = PackedLinear(linear.weight, linear.bias, "float32")
    with torch.inference_mode():
        seconds = min(timeit.repeat(lambda: layer(x), number=1, repeat=300))
    return 2 * queries * width * out / seconds


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *lines))


def main() -> None:
    """Measure and write the tables."""
    parser(__doc__).parse_args()
    units = "yes" if has_bfloat16() else "no"
    live, evaluated = measure()
    work, speed = operations(model("crossfeed", "base", None)), product_speed()
    ways = ["preset", "size", "instance norm", "sensors", "without cache", "live", "live, bfloat16"]
    ways += ["live, tolerance 0.05", "another plan"]
    columns = ["preset", "size", "instance norm", "windows", "forward", "as evaluated"]
    text = f"""# What a forecast costs

{date.today():%Y-%m-%d}, {processor()}, bfloat16 units: {units}; torch {torch.__version__}, Python
{platform.python_version()}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores while measuring. Made by
`python benchmarks/forecast.py`.

## One new row in, all horizons out: milliseconds of one core (mean)

"Without cache" encodes all 32 rows with `WorldModel.forecast`. "Live" is `LiveForecaster`: of the paper's
network weights are packed once and rows encoded once where instance normalisation permits. Under `centred` the
window's mean moves with
every row, so the exact live forecast encodes all rows again; with a tolerance the mean is held until it has moved by
0.05 z-units (the synthetic levels jump every 40 rows). "Another plan" is a second forecast before the next row.
In bfloat16 weights of both networks are packed. A dash: this CPU has no bfloat16 units.

{markdown(ways, live)}

## 2,457 overlapping windows of 13 sessions, 10 of 17 sensors: seconds of one core, so half of it on two

"Forward" is `WorldModel.forward` in batches of 128. "As evaluated" is `WorldModelForecaster`, which
leaves out absent sensors; of the paper's network weights are packed and only the state at the last row is computed.

{markdown(columns, evaluated)}

## How far it could go

One forecast of the crossfeed preset at base size, two members and 17 sensors, takes {work / 1e6:.0f} million
operations in matrix products, more than half of them for its 85 queries (17 sensors, 5 horizons). A packed product of
their shape runs at {speed / 1e9:.0f} billion a second on this core, so {1e3 * work / speed:.1f} ms are the least that
float32 can reach here without other arithmetic.
"""
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
