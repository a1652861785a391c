"""Train the method's arms on a source machine and open each on a target machine: what every repair costs and brings.

    python benchmarks/arms.py source.parquet target.parquet --size compact --seeds 3 --jobs 2 --out out/arms

Each (arm, seed) is a process of its own and leaves one JSON file; finished ones are not run again. The table at the
end is what docs/experiments.md shows. This is an experiment about the method, no sealed study: every arm reads the
target.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

PAPER_HEAD = {"model.head.variance": "hard_clamp", "model.head.limit": 8.0, "model.head.likelihood": "nll"}
NO_LATENT = {f"objectives.weights.{name}": 0.0 for name in ("latent", "vicreg", "schema", "recovery")}
NO_LATENT = {**NO_LATENT, "training.initialisation": "scratch"}
CENTRED = {"model.instance_norm.kind": "centred"}

# name: (preset, settings on top of it)
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "paper": ("paper", {}),
    "paper + pure RevIN": ("paper", {"model.instance_norm.kind": "pure"}),
    "no instance norm": ("mended", {"model.instance_norm.kind": "none"}),
    "pure, hard clamp": ("mended", {"model.instance_norm.kind": "pure", **PAPER_HEAD}),
    "pure, smooth bound": ("mended", {"model.instance_norm.kind": "pure"}),
    "floored": ("mended", {"model.instance_norm.kind": "floored"}),
    "blended": ("mended", {"model.instance_norm.kind": "blended"}),
    "split": ("mended", {"model.instance_norm.kind": "split"}),
    "anchored (mended)": ("mended", {}),
    "centred": ("mended", CENTRED),
    "centred, plain NLL": ("mended", {**CENTRED, "model.head.likelihood": "nll"}),
    "centred, mean commands": ("mended", {**CENTRED, "model.predictor.conditioning": "mean"}),
    "centred, token injection": (
        "mended",
        {**CENTRED, "model.predictor.injection": "token", "model.predictor.conditioning": "mean"},
    ),
    "centred, no latent objective": ("mended", {**CENTRED, **NO_LATENT}),
    "centred, no commands": ("mended", CENTRED),
    "centred, plain control without VICReg": ("mended", {**CENTRED, "objectives.weights.vicreg": 0.0}),
}
MACHINES = ("spinner_620", "spinner_630")
BUDGET = {"training.pretrain_epochs": 12, "training.finetune_epochs": 24, "training.steps_per_epoch": 60}


def run_arm(options: argparse.Namespace, arm: str, seed: int) -> dict[str, Any]:
    """Train one arm with one seed and measure it on source validation and on the target."""
    import torch

    from crossfeed.configuration import override, parse_assignments
    from crossfeed.evaluation.judge import evaluate_target
    from crossfeed.evaluation.metrics import score_windows
    from crossfeed.evaluation.opened_model import WorldModelForecaster
    from crossfeed.evaluation.setup import SourceData
    from crossfeed.logs.table import Table
    from crossfeed.model.world_model import WorldModel
    from crossfeed.training.run import train
    from crossfeed.training.run_config import preset
    from crossfeed.windows.corrupt import level_shift

    source, target = Table.read(options.source), Table.read(options.target)
    if arm == "centred, no commands":
        source, target = (replace(table, commands=table.commands * 0.0) for table in (source, target))
    base, settings = ARMS[arm]
    changes = {**BUDGET, "training.seed": seed, **settings, **parse_assignments(options.set)}
    config = override(preset(base, options.size), changes)
    began = time.perf_counter()
    result = train(source, config, options.out / "runs" / _slug(arm, seed), resume=True, device=options.device)
    seconds = time.perf_counter() - began
    model = WorldModel.load(result.model)
    if options.device != "cpu" and torch.cuda.is_available():
        model = model.to("cuda")
    forecaster = WorldModelForecaster(model)
    own = SourceData.of([source], config.data)
    data = own.evaluation_set(model, "validation")
    shared = [name for name, here in zip(target.schema.sensor_names, target.present(), strict=True) if here]
    absent = [name for name in target.schema.sensor_names if name not in shared]
    reduced = own.evaluation_set(model, "validation", absent)
    shifted = score_windows(forecaster, reduced, world=lambda batch, _: level_shift(batch, 1))
    deaf = arm == "centred, no commands"
    opened = evaluate_target({"model": (model, config)}, [source], [target]).to_dict()
    return {
        "arm": arm,
        "seed": seed,
        "seconds": seconds,
        "parameters": sum(p.numel() for name, p in model.named_parameters() if "target_encoder" not in name),
        "source": score_windows(forecaster, data).metrics(),
        "source_shifted": shifted.metrics(),
        "target": opened["scores"]["model"],
        "floors": {name: scores for name, scores in opened["scores"].items() if name != "model"},
        "command_use": opened["command_use"]["model"],
        "counterfactual": {name: counterfactual(model, own.space, name, deaf) for name in MACHINES},
        "summary": result.summary,
    }


def counterfactual(model: Any, space: Any, machine: str, deaf: bool) -> dict[str, Any]:
    """Errors under altered plans, rolled out on a simulated machine; a model trained without commands hears none."""
    import torch

    from crossfeed.evaluation.opened_model import WorldModelForecaster
    from crossfeed.files import plain
    from crossfeed.sim.counterfactual import counterfactual_error, counterfactual_tables
    from crossfeed.sim.physics.catalogue import machine_named
    from crossfeed.sim.physics.rollout import SimulatedMachine

    class Deaf(WorldModelForecaster):
        def predict(self, batch: Any) -> Any:
            silent = {name: torch.zeros_like(getattr(batch, name)) for name in ("a_BKA", "mean_a_BHA", "future_a_BTA")}
            return super().predict(replace(batch, **silent))

    context, horizons = model.config.context, model.horizons
    tables = counterfactual_tables(SimulatedMachine(machine_named(machine)), context, horizons[-1])
    forecaster = Deaf(model) if deaf else WorldModelForecaster(model)
    device = model.device
    return dict(plain(counterfactual_error(forecaster, tables, model.normaliser, space, context, horizons, device)))


def _slug(arm: str, seed: int) -> str:
    return "".join(c if c.isalnum() else "-" for c in arm) + f"-{seed}"


def run_all(options: argparse.Namespace) -> None:
    """Keep `jobs` processes busy until every arm and seed has its file."""
    todo = [(arm, seed) for seed in range(options.seeds) for arm in options.arms]
    todo = [(arm, seed) for arm, seed in todo if not (options.out / f"{_slug(arm, seed)}.json").exists()]
    running: dict[subprocess.Popen[bytes], tuple[str, int]] = {}
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // options.jobs))}
    while todo or running:
        while todo and len(running) < options.jobs:
            arm, seed = todo.pop(0)
            command = [sys.executable, "-W", "ignore", *sys.argv, "--one", arm, "--one-seed", str(seed)]
            log = (options.out / f"{_slug(arm, seed)}.log").open("wb")
            running[subprocess.Popen(command, stdout=log, stderr=log, env=environment)] = (arm, seed)
        for process in [process for process in running if process.poll() is not None]:
            arm, seed = running.pop(process)
            print(f"{arm}, seed {seed}: {'done' if process.returncode == 0 else 'FAILED'}", flush=True)
        time.sleep(0.2)


def table(options: argparse.Namespace) -> str:
    """Mean and spread over the seeds, one line per arm."""
    columns = (
        ("source RMSE", lambda r: r["source"]["rmse"]),
        ("source CRPS", lambda r: r["source"]["crps"]),
        ("source, shifted and reduced RMSE", lambda r: r["source_shifted"]["rmse"]),
        ("target RMSE", lambda r: r["target"]["rmse"]),
        ("target MAE", lambda r: r["target"]["mae"]),
        ("target CRPS", lambda r: r["target"]["crps"]),
        ("target NLL", lambda r: r["target"]["nll"]),
        ("target coverage 90 %", lambda r: r["target"]["coverage90"]),
        ("shuffled/true, target", lambda r: r["command_use"]["shuffled"]["rmse_ratio"]["estimate"]),
    )
    lines = ["| arm | seeds | " + " | ".join(name for name, _ in columns) + " | collapsed |"]
    lines.append("|---|---|" + "---|" * (len(columns) + 1))
    floors: dict[str, Any] = {}
    for arm in options.arms:
        files = [options.out / f"{_slug(arm, seed)}.json" for seed in range(options.seeds)]
        results = [json.loads(path.read_text()) for path in files if path.exists()]
        if not results:
            continue
        floors = results[0]["floors"]
        cells = [_cell([read(result) for result in results]) for _, read in columns]
        collapsed = sum(any(stage["collapse"] for stage in result["summary"]["stages"].values()) for result in results)
        lines.append(f"| {arm} | {len(results)} | " + " | ".join(cells) + f" | {collapsed} |")
    for name, scores in floors.items():
        cells = ["", "", "", *(_cell([scores[key]]) for key in ("rmse", "mae", "crps", "nll", "coverage90")), ""]
        lines.append(f"| {name} | | " + " | ".join(cells) + " | |")
    return "\n".join(lines)


def _cell(values: list[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    if not numbers:
        return ""
    spread = f" ± {stdev(numbers):.3f}" if len(numbers) > 1 else ""
    return f"{fmean(numbers):.3f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--size", default="compact")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--set", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=Path("out/arms"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--one-seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.one:
        result = run_arm(options, options.one, options.one_seed)
        (options.out / f"{_slug(options.one, options.one_seed)}.json").write_text(json.dumps(result))
        return
    run_all(options)
    text = table(options)
    (options.out / "table.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
