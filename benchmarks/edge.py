"""A single forecast on one core: torch, onnxruntime in float32 and in int8, all members or one, in one run; start and
memory at the edge.

    python benchmarks/edge.py [--size base] [--repeats 200] [--out benchmarks/edge.md]

Weights are drawn, not trained: time does not depend on them. The ways take turns, so that whatever else the
machine does falls on all of them alike; time of the core leaves out what others took of it.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

CHILD = """
import sys, time
start = time.perf_counter()
import numpy as np
from crossfeed.edge import EdgeModel
model = EdgeModel(sys.argv[1])
history = {name: np.sin(np.arange(model.context)) for name in model.sensors + model.commands}
plan = {name: np.zeros(model.horizons[-1]) for name in model.commands}
said = model.forecast(history, plan)
first = time.perf_counter() - start
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(first, time.process_time(), int(status["VmHWM"].split()[0]) / 1024)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="base")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    import numpy as np
    import torch
    from measuring import identity_normaliser

    from crossfeed.edge import EdgeModel
    from crossfeed.evaluation.opened_model import open_model
    from crossfeed.front.export import describe, file_bytes, folded, in_int8
    from crossfeed.front.graph import ExportedNetwork, to_onnx
    from crossfeed.model.live import LiveForecaster
    from crossfeed.model.presets import crossfeed
    from crossfeed.model.world_model import WorldModel
    from crossfeed.schema import canonical

    torch.set_num_threads(1)
    torch.manual_seed(0)
    schema = canonical()
    model = WorldModel.build(crossfeed().model.sized(arguments.size), schema, identity_normaliser()).eval()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder / "model.safetensors", {"row_period": 1.0})
        opened = open_model(folder / "model.safetensors", "cpu")
        files = {}
        for members, name in ((model.members, ""), (1, ", one member")):
            network = ExportedNetwork(opened.model, members=members)
            graph, metadata = folded(to_onnx(network), folder), describe(opened, network)
            for precision, made in (("float32", graph), ("int8", in_int8(graph, folder))):
                files[precision + name] = folder / f"{precision}-{members}.onnx"
                files[precision + name].write_bytes(file_bytes(made, metadata))
        edge = {precision: EdgeModel(path) for precision, path in files.items()}
        random = np.random.default_rng(0)
        names = schema.sensor_names + schema.command_names
        history = {name: random.normal(size=model.config.context) for name in names}
        plan = {name: random.normal(size=model.horizons[-1]) for name in schema.command_names}
        live = LiveForecaster(opened.model)
        rows = [{name: float(values[row]) for name, values in history.items()} for row in range(model.config.context)]
        for row in rows:
            live.push(row)

        def pushed() -> None:
            live.push(rows[-1])
            live.forecast(plan)

        ways: dict[str, Callable[[], object]] = {
            "torch, `WorldModel.forecast`": lambda: opened.model.forecast(history, plan),
            "torch, `LiveForecaster`": pushed,
        }
        for name, exported in edge.items():
            ways[f"`crossfeed.edge`, {name}"] = partial(exported.forecast, history, plan)
        times: dict[str, list[float]] = {way: [] for way in ways}
        work: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(5 + arguments.repeats):
            for way, call in ways.items():
                start, busy = time.perf_counter(), time.process_time()
                call()
                times[way].append(1000 * (time.perf_counter() - start))
                work[way].append(1000 * (time.process_time() - busy))
        quantiles = edge["float32"].forecast(history, plan)
        extra = []
        for _ in range(20):
            start = time.process_time()
            quantiles.quantiles([0.05, 0.95])
            extra.append(1000 * (time.process_time() - start))
        starts = {
            precision: [
                [float(part) for part in subprocess.check_output([sys.executable, "-c", CHILD, str(path)]).split()]
                for _ in range(5)
            ]
            for precision, path in files.items()
        }
        sizes = {precision: path.stat().st_size / 1e6 for precision, path in files.items()}
    lines = [
        "# A forecast at the edge",
        "",
        f"One window, all horizons, size `{arguments.size}` of the `crossfeed` preset ({model.config.members} members, "
        f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters), one thread, {platform.machine()}; "
        f"`python benchmarks/edge.py --size {arguments.size}`. The ways took turns, {arguments.repeats} times.",
        "",
        "| way | time of the core: best | median | by the clock: best | median |",
        "|---|---:|---:|---:|---:|",
    ]
    for way, found in times.items():
        figures = (min(work[way][5:]), statistics.median(work[way][5:]), min(found[5:]), statistics.median(found[5:]))
        lines.append(f"| {way} | {' | '.join(f'{figure:.1f} ms' for figure in figures)} |")
    lines += [
        "",
        f"Two quantiles of every sensor and horizon on top: {statistics.median(extra):.1f} ms of the core.",
        "",
        "| file | size | start: interpreter, import, open, first forecast; time of the core (best of 5) | memory |",
        "|---|---:|---:|---:|",
    ]
    for precision, found in starts.items():
        best, memory = min(row[1] for row in found), max(row[2] for row in found)
        lines.append(f"| {precision} | {sizes[precision]:.1f} MB | {best:.2f} s | {memory:.0f} MB |")
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
