"""How far forecasts under a plan can be trusted: rolled forward, compared with what the simulated machine really did.

`python benchmarks/rollout.py` simulates a pair of machines, trains two tiny models on the first (three minutes each on
two cores), rolls them forward over sessions of another seed on both machines, and rewrites benchmarks/rollout.md. With
`--model RUN --source LOG.parquet --target LOG.parquet` it measures a model and tables that are already there.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import torch
from changed_plans import changed_plans
from direct_horizons import horizon_errors

from crossfeed.evaluation.opened_model import open_model
from crossfeed.logs.table import Table
from crossfeed.model.interface import Plan
from crossfeed.model.world_model import WorldModel
from crossfeed.scenarios.history import History, read_history
from crossfeed.scenarios.measures import energies, power_sensors, sample_quantiles
from crossfeed.scenarios.plan import FOLLOWED, PlannedCommands, read_plans
from crossfeed.scenarios.rollout import PERSISTENCE, Rollout, standard_noise

AHEAD = (16, 32, 64, 128, 256)
_COMPARED = (16, 64, 128)
SETTINGS = (
    "model.dropout=0 model.context=16 training.batch_size=24 training.steps_per_epoch=60 training.finetune_epochs=14 "
    "training.validation_windows=256 training.learning_rate=0.002 training.warmup_steps=30"
)


@dataclass(frozen=True)
class Case:
    """One moment of one session, with the plan and the truth that followed; sensors in z-space, (T, C)."""

    history: History
    plan: PlannedCommands
    truth: np.ndarray
    last: np.ndarray


Roll = Callable[[WorldModel, Case, np.ndarray], np.ndarray]


def cases(table: Table, model: WorldModel, count: int, longest: int, seed: int = 0) -> list[Case]:
    """Random moments, one in each of `count` sessions, longest sessions first; each looks ahead as far as it can."""
    context = model.config.context
    order = sorted(table.groups, key=lambda group: -len(group))[:count]
    random = np.random.default_rng(seed)
    found = []
    for group in order:
        if len(group) < context + AHEAD[0] + 1:
            continue
        latest = max(context, len(group) - longest - 1)
        row = int(random.integers(context, latest + 1))
        history = read_history(table, model, group.key, row * table.period)
        (plan,) = read_plans([FOLLOWED], history, seconds=longest * table.period)
        assert plan.truth is not None
        z = model.normaliser.transform_sensors
        found.append(Case(history, plan, z(plan.truth), z(history.sensors[-1])))
    return found


def by_blocks(model: WorldModel, case: Case, noise: np.ndarray) -> np.ndarray:
    """What crossfeed does."""
    return Rollout(model, case.history).sample(case.plan, noise)


def by_chunks(length: int, held: bool) -> Roll:
    """The obvious alternative: `length` rows at a time, each at its own horizon, between the trained ones as well."""

    @torch.inference_mode()
    def roll(model: WorldModel, case: Case, noise: np.ndarray) -> np.ndarray:
        context, normaliser, samples = model.config.context, model.normaliser, len(noise)
        x = torch.from_numpy(normaliser.transform_sensors(case.history.sensors[-context:])).float()
        present = x.isfinite().any(0)
        x = x.expand(samples, -1, -1)
        a = np.concatenate([case.history.commands[-context:], case.plan.commands])
        a = torch.from_numpy(normaliser.transform_commands(a)).float().expand(samples, -1, -1)
        first = model.level(x, x.isfinite())
        for start in range(0, len(case.plan), length):
            horizons = tuple(range(1, min(length, len(case.plan) - start) + 1))
            mask = x[:, start:].isfinite()
            level = first if held else model.level(x[:, start:], mask)
            rows = model.read(torch.where(mask, x[:, start:], 0.0), mask, level)
            encoded = model.context(rows, a[:, start : start + context])
            future = a[:, start + context : start + context + len(horizons)]
            said = model.decode(encoded, Plan.under(future, horizons)).distribution
            drawn = said.from_normal(torch.from_numpy(noise[:, start : start + len(horizons)]).float())
            x = torch.cat([x, torch.where(present, drawn, torch.nan)], 1)
        return np.asarray(normaliser.inverse_sensors(x[:, context:].double().numpy()))

    return roll


@dataclass
class Score:
    """What was counted over the cases, for each distance ahead: one row of counts per case."""

    rows: dict[int, list[dict[str, float]]]

    def mean(self, ahead: int, name: str) -> float:
        values = [row[name] for row in self.rows[ahead]]
        return float(np.sqrt(np.mean(values)) if name in ("rmse", "persistence") else np.mean(values))


def score(model: WorldModel, found: list[Case], roll: Roll, samples: int, persistence: float) -> Score:
    """Roll every case forward and compare: rows in the last quarter before each distance, energy and peak up to it."""
    rows: dict[int, list[dict[str, float]]] = {ahead: [] for ahead in AHEAD}
    for number, case in enumerate(found):
        noise = standard_noise(samples, len(case.plan), len(model.schema.sensors), number, persistence)
        paths = roll(model, case, noise)
        z = model.normaliser.transform_sensors(paths)
        low, high = sample_quantiles(z, (0.05, 0.95))
        for ahead in (ahead for ahead in AHEAD if ahead <= len(case.plan)):
            rows[ahead].append(_compared(model, case, paths, z.mean(0), low, high, ahead))
    return Score(rows)


def _compared(
    model: WorldModel, case: Case, paths: np.ndarray, mean: np.ndarray, low: np.ndarray, high: np.ndarray, ahead: int
) -> dict[str, float]:
    quarter = slice(ahead * 3 // 4, ahead)
    truth = case.truth[quarter]
    there = np.isfinite(truth) & np.isfinite(mean[quarter])
    inside = (truth >= low[quarter]) & (truth <= high[quarter])
    assert case.plan.truth is not None
    present = np.isfinite(case.history.sensors[-1])
    powers = power_sensors(model.schema, present)
    sampled = energies(paths[:, :ahead], model.schema, powers, case.history.period)
    true = float(energies(case.plan.truth[:ahead], model.schema, powers, case.history.period))
    bounds = sample_quantiles(sampled, (0.05, 0.95))
    column = model.schema.sensor_names.index(powers[0])
    highest, peak = paths[:, :ahead, column].max(1), float(case.plan.truth[:ahead, column].max())
    peak_bounds = sample_quantiles(highest, (0.05, 0.95))
    return {
        "cover": float(inside[there].mean()),
        "width": float((high - low)[quarter][there].mean()),
        "rmse": float(np.square(truth - mean[quarter])[there].mean()),
        "persistence": float(np.square(truth - case.last)[there].mean()),
        "energy_cover": float(bounds[0] <= true <= bounds[1]),
        "energy_error": abs(float(sampled.mean()) - true),
        "energy_width": float(bounds[1] - bounds[0]),
        "energy": abs(true),
        "peak_cover": float(peak_bounds[0] <= peak <= peak_bounds[1]),
    }


def prepare(folder: Path) -> tuple[Path, Path, Path, Path]:
    """Simulate, ingest and train with the command line, as a user would; what is already there stays."""

    def crossfeed(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "crossfeed", "-q", *words], check=True, stdout=subprocess.DEVNULL)

    for name, scale, seed in (("train", "demo", "0"), ("judge", "full", "1")):
        if not (folder / f"{name}_target.parquet").exists():
            crossfeed("simulate", str(folder / name), "--scale", scale, "--seed", seed)
            crossfeed("ingest", "thws", str(folder / name / "thws"), str(folder / f"{name}_source.parquet"))
            crossfeed("ingest", "joanneum", str(folder / name / "joanneum"), str(folder / f"{name}_target.parquet"))
    for name, more in (("run", ""), ("plain", "model.instance_norm.kind=none")):
        if not (folder / name / "model.safetensors").exists():
            options = [word for setting in f"{SETTINGS} {more}".split() for word in ("--set", setting)]
            table = str(folder / "train_source.parquet")
            crossfeed("train", "--table", table, "--out", str(folder / name), "--size", "tiny", *options)
    return folder / "run", folder / "judge_source.parquet", folder / "judge_target.parquet", folder / "plain"


def report(
    model: WorldModel, source: Table, target: Table, count: int, samples: int, plain: WorldModel | None
) -> list[str]:
    """The whole measurement as a page."""
    lines = [
        "# How far a forecast under a plan can be trusted",
        "",
        f"{date.today().isoformat()}; tiny model, context {model.config.context}, horizons "
        f"{', '.join(map(str, model.horizons))}, trained on one simulated machine. Judged on sessions",
        "of another seed: the same machine (source), and the other machine, never seen (target, 10 of 17 sensors).",
        "Made by `python benchmarks/rollout.py`. Errors and widths in z-units of the training rows.",
        "",
        "## Rolled forward",
        "",
        f"One random moment in each of up to {count} sessions, {samples} sampled futures. Rows: the last quarter",
        "before each distance. Energy and peak (of the spindle power): over everything up to it. Intervals claim 90 %.",
        "",
    ]
    tables = {"source": cases(source, model, count, AHEAD[-1]), "target": cases(target, model, count, AHEAD[-1])}
    started = time.process_time()
    chosen = {name: score(model, found, by_blocks, samples, PERSISTENCE) for name, found in tables.items()}
    rolled = sum(len(case.plan) for found in tables.values() for case in found) * samples
    cost = (time.process_time() - started) / rolled
    lines += [
        "| machine | seconds ahead | sessions | rows covered | width | RMSE | RMSE of persistence | energy covered "
        "| energy error | energy interval | peak covered |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, result in chosen.items():
        for ahead in (ahead for ahead in AHEAD if result.rows[ahead]):
            energy = result.mean(ahead, "energy")
            lines.append(
                f"| {name} | {ahead} | {len(result.rows[ahead])} | {result.mean(ahead, 'cover'):.0%} "
                f"| {result.mean(ahead, 'width'):.2f} | {result.mean(ahead, 'rmse'):.2f} "
                f"| {result.mean(ahead, 'persistence'):.2f} | {result.mean(ahead, 'energy_cover'):.0%} "
                f"| {result.mean(ahead, 'energy_error') / energy:.0%} "
                f"| {result.mean(ahead, 'energy_width') / energy:.0%} | {result.mean(ahead, 'peak_cover'):.0%} |"
            )
    lines += ["", f"Cost: {cost * 300 * 64:.0f} s of one core for a plan of 300 rows with 64 futures.", ""]
    lines += [*_choices(model, tables, samples), *changed_plans(model, samples)]
    lines += changed_plans(plain, samples) if plain is not None else []
    lines += [
        "## Horizons between the trained ones",
        "",
        "Direct forecasts on the source, 600 windows. The embedding of a horizon that was not trained lies between its",
        "neighbours, but its intervals cover less: what a row at this horizon owes to the command of that very second",
        "was never learned. So the rollout asks for trained horizons only.",
        "",
        "| horizon | trained | RMSE | rows covered |",
        "|---|---|---|---|",
    ]
    for horizon, trained, rmse, cover in horizon_errors(model, source):
        lines.append(f"| {horizon} | {'yes' if trained else ''} | {rmse:.2f} | {cover:.0%} |")
    return lines


def _choices(model: WorldModel, tables: dict[str, list[Case]], samples: int) -> list[str]:
    """The same cases rolled forward in other ways."""
    ways: list[tuple[str, Roll, float]] = [
        (f"blocks after waiting, held, persistence {PERSISTENCE:g} (chosen)", by_blocks, PERSISTENCE),
        *((f"blocks after waiting, persistence {p:g}", by_blocks, p) for p in (0.0, 0.5, 0.8)),
        ("chunks of 16 with horizons in between, held", by_chunks(16, held=True), PERSISTENCE),
        ("chunks of 16 with horizons in between, moving", by_chunks(16, held=False), PERSISTENCE),
        ("two rows at a time, held", by_chunks(2, held=True), PERSISTENCE),
        ("two rows at a time, moving", by_chunks(2, held=False), PERSISTENCE),
    ]
    lines = [
        "## Other ways to roll forward",
        "",
        "Eight sessions of each machine. Persistence is the correlation of a path's errors from one row to the next.",
        "Held or moving: the window statistics of instance normalisation. Cells: rows covered / RMSE / energy covered.",
        "",
        "| way | " + " | ".join(f"{name}, {ahead} s" for name in tables for ahead in _COMPARED) + " |",
        "|---|" + "---|" * (len(_COMPARED) * len(tables)),
    ]
    for label, roll, persistence in ways:
        cells = []
        for found in tables.values():
            short = [Case(c.history, c.plan.first(128), c.truth[:128], c.last) for c in found[:8]]
            result = score(model, short, roll, samples, persistence)
            cells += [
                f"{result.mean(a, 'cover'):.0%} / {result.mean(a, 'rmse'):.2f} / {result.mean(a, 'energy_cover'):.0%}"
                for a in _COMPARED
            ]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="keep the simulated logs and the model here")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--plain", type=Path, help="a model without instance normalisation, for changed plans")
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        paths = (given.model, given.source, given.target)
        paths = (*paths, given.plain) if all(paths) else prepare(given.folder or Path(temporary))
        run, source, target, plain = paths
        second = open_model(plain, "cpu").model if plain else None
        model, tables = open_model(run, "cpu").model, (Table.read(source), Table.read(target))
        lines = report(model, *tables, given.cases, given.samples, second)
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
