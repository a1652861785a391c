"""What a forecast costs on a CPU: one live forecast, and 2,457 overlapping windows.

`python benchmarks/forecast.py` rewrites benchmarks/forecast.md. It counts the CPU time of one thread, so that other
jobs on the machine matter less (they still take cache and memory bandwidth away). The weights are random, which changes
no cost. The sessions are synthetic: 13 of 236 rows with 10 of the 17 sensors give as many windows as the target machine
of the paper; three of them are run and scaled up.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crossfeed.evaluation.world_model import WorldModelForecaster
from crossfeed.ingest.table import Group, Table
from crossfeed.model.live import LiveForecaster
from crossfeed.model.packed_weights import packed
from crossfeed.model.presets import mended, paper
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import canonical
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowSet

SCHEMA = canonical()
SHARED = 10
SESSIONS, MEASURED, ROWS = 13, 3, 236


def normaliser() -> Normaliser:
    """Identity: the synthetic rows are already in z-space."""
    sensors, commands = len(SCHEMA.sensors), len(SCHEMA.commands)
    return Normaliser(
        "zscore", 0.05, SCHEMA.sensor_names, SCHEMA.command_names, np.zeros(sensors), np.ones(sensors),
        np.zeros(commands), np.ones(commands), (), "0" * 64,
    )  # fmt: skip


def sessions() -> Table:
    """Levels that change every 40 rows, with a little noise; seven sensors absent."""
    random = np.random.default_rng(0)
    count = MEASURED * ROWS
    levels = np.repeat(random.normal(size=(count // 40 + 1, len(SCHEMA.sensors))), 40, axis=0)[:count]
    sensors = levels + 0.02 * random.normal(size=levels.shape)
    sensors[:, SHARED:] = np.nan
    groups = tuple(Group("b", f"s{n:02d}", "r", "p", n * ROWS, (n + 1) * ROWS) for n in range(MEASURED))
    commands = np.repeat(random.normal(size=(count // 40 + 1, len(SCHEMA.commands))), 40, axis=0)[:count]
    return Table(SCHEMA, groups, np.tile(np.arange(float(ROWS)), MEASURED), sensors, commands, 1.0, {})


def model(name: str, kind: str) -> WorldModel:
    """A base-size model of a preset with the given instance normalisation."""
    config = (paper() if name == "paper" else mended()).model
    torch.manual_seed(0)
    norm = config.instance_norm.model_copy(update={"kind": kind})
    return WorldModel.build(config.model_copy(update={"instance_norm": norm}), SCHEMA, normaliser()).eval()


def milliseconds(action: Callable[[], object], repeats: int = 60) -> str:
    """Mean CPU time after a warm-up."""
    for _ in range(3):
        action()
    start = time.process_time()
    for _ in range(repeats):
        action()
    return f"{1e3 * (time.process_time() - start) / repeats:.1f}"


def live_costs(net: WorldModel, values: np.ndarray) -> list[str]:
    """One new row: without cache, live, live in bfloat16, live with a tolerance."""
    names = SCHEMA.sensor_names + SCHEMA.command_names
    plan = {name: np.zeros(16) for name in SCHEMA.command_names}
    history = dict(zip(names, values[:32].T))
    cells = [milliseconds(lambda: net.forecast(history, plan))]
    for precision, tolerance in (("float32", 0.0), ("bfloat16", 0.0), ("float32", 0.05)):
        live = LiveForecaster(net, tolerance, "bfloat16" if precision == "bfloat16" else "float32")
        feed = iter(values)
        for _ in range(32):
            live.push(dict(zip(names, next(feed))))
        cells.append(milliseconds(partial(_next_row, live, feed, names, plan)))
    return cells


def _next_row(live: LiveForecaster, feed: Iterator[np.ndarray], names: Sequence[str], plan: dict[str, Any]) -> None:
    live.push(dict(zip(names, next(feed))))
    live.forecast(plan)


def evaluation_costs(net: WorldModel, windows: WindowSet) -> list[str]:
    """All windows: through `forward`, as evaluated, as evaluated with packed weights, and those in bfloat16."""
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
    for action in (
        forward,
        partial(evaluated, net),
        partial(evaluated, packed(net)),
        partial(evaluated, packed(net, "bfloat16")),
    ):
        start = time.process_time()
        action()
        cells.append(f"{(time.process_time() - start) * SESSIONS / MEASURED:.0f}")
    return cells


def measure() -> tuple[list[list[str]], list[list[str]]]:
    """Both tables, for the two presets and for the default without instance normalisation."""
    torch.set_num_threads(1)
    table = sessions()
    filler = 0.1 * np.sin(np.arange(len(table)))[:, None]
    machines = {17: np.where(np.isnan(table.sensors), filler, table.sensors), SHARED: table.sensors}
    live, evaluated = [], []
    for preset, kind in (("paper", "none"), ("mended", "none"), ("mended", "centred")):
        net = model(preset, kind)
        for sensors, values in machines.items():
            rows = np.concatenate([values, table.commands], axis=1)
            live.append([preset, kind, str(sensors), *live_costs(net, rows)])
        windows = WindowSet.build(table, None, normaliser())
        evaluated.append([preset, kind, f"{len(windows) * SESSIONS // MEASURED:,}", *evaluation_costs(net, windows)])
    return live, evaluated


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *lines))


def processor() -> str:
    """The CPU by name, and whether it has bfloat16 units."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    name = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "")
    return f"{name or platform.processor()}, bfloat16 units: {'yes' if 'bf16' in text else 'no'}"


def main() -> None:
    """Measure and write the tables."""
    live, evaluated = measure()
    ways = ["preset", "instance norm", "sensors", "without cache", "live", "live, bfloat16", "live, tolerance 0.05"]
    columns = ["preset", "instance norm", "windows", "forward", "evaluated", "packed", "packed, bfloat16"]
    text = f"""# What a forecast costs

Base size, {date.today():%Y-%m-%d}, {processor()}; torch {torch.__version__}, Python
{platform.python_version()}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores while measuring. Made by
`python benchmarks/forecast.py`.

## One new row in, all horizons out: milliseconds of one core (mean)

"Without cache" encodes all 32 rows with `WorldModel.forecast`. "Live" is `LiveForecaster`: weights packed once, rows
encoded once where instance normalisation permits. Under `centred` the window's mean moves with every row, so the exact
live forecast encodes all rows again; with a tolerance the mean is held until it has moved by 0.05 z-units (the
synthetic levels jump every 40 rows).

{markdown(ways, live)}

## 2,457 overlapping windows of 13 sessions, 10 of 17 sensors: seconds of one core, so half of it on two

"Forward" is `WorldModel.forward` in batches of 128. "Evaluated" is `WorldModelForecaster`: absent sensors are left out
and only the state at the last row is computed. "Packed" does so with weights that were laid out once.

{markdown(columns, evaluated)}
"""
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
