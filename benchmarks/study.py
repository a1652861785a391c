"""A complete miniature study on the simulated pair: all candidates, confirmation, lock, opening, declared ablation.

    python benchmarks/study.py                    two jobs; about ten minutes on two free cores
    python benchmarks/study.py --write            also rewrites benchmarks/study.md
    python benchmarks/study.py --candidates 3     a quick look, and what the whole would take
    python benchmarks/study.py --protocol paper   the paper's twenty, by the paper's rules

The models are tiny and trained for some hundred steps: what is measured is the study, not the method. Nothing is
forced: if the lock is refused, or the condition of the ablation does not hold, the table says so and why.
"""

import argparse
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crossfeed.cli.render.results import show_ranking, show_target_result
from crossfeed.errors import ConfigError
from crossfeed.jobs import LocalEngine
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.pipeline import ingest
from crossfeed.progress import be_quiet
from crossfeed.sim.simulate import simulate_pair
from crossfeed.study.record.score import PROTOCOLS, rules_of
from crossfeed.study.study import Study
from crossfeed.study.verify import export

SETTINGS: dict[str, Any] = {
    "model.context": 16,
    "data.stride": 2,
    "training.batch_size": 16,
    "training.steps_per_epoch": 36,
    "training.finetune_epochs": 7,
    "training.learning_rate": 0.003,
    "training.warmup_steps": 20,
    "training.validation_windows": 96,
}
LATENTS: dict[str, Any] = {
    "model.blocks.width": 32,
    "model.blocks.heads": 2,
    "model.blocks.dropout": 0.0,
    "model.encoder.channel_layers": 1,
    "training.pretrain_epochs": 2,
    "training.ema_momentum": 0.95,
    "training.health.windows": 96,
}
OWN = {
    "paper": LATENTS,
    "mended": LATENTS,
    "crossfeed": {"model.width": 32, "model.heads": 2, "model.dropout": 0.0, "training.average_decay": 0.95},
}
SEEDS, MINIMUM_SEEDS, MOST_SEEDS, PAIRS = 2, 3, 5, 3
# The winner of the paper, and our presets, first, so that a short look contains them.
FIRST = {
    "paper": ("schema_and_command_recovery", "cross_attention_command", "per_horizon_vicreg"),
    "mended": ("preset", "token_commands", "mixed_masks"),
    "crossfeed": ("preset", "machines_alike", "constant_rate"),
}
REVIN: dict[str, dict[str, Any]] = {"control": {}, "revin": {"model.instance_norm.kind": "pure"}}
# The default network has no instance normalisation: its ablation shows it nothing but its own machine.
ALONE: dict[str, Any] = {"machines.gain": 0.0, "machines.level": 0.0, "machines.noise": 0.0, "masks.channel_drop": 0.0}
ABLATIONS = {
    "paper": ("revin", REVIN),
    "mended": ("revin", REVIN),
    "crossfeed": ("one_machine", {"control": {}, "one_machine": ALONE}),
}


@dataclass
class Phases:
    """Seconds and results, phase by phase."""

    rows: list[tuple[str, float, int, str]] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str, count: Callable[[], int] = lambda: 0) -> Iterator[list[str]]:
        """Time a phase; the block appends what it found, `count` says how many runs are finished."""
        print(f"{name} ...", flush=True)
        found: list[str] = []
        before, began = count(), time.perf_counter()
        yield found
        self.rows.append((name, time.perf_counter() - began, count() - before, "; ".join(found)))

    def table(self) -> str:
        lines = ["| phase | seconds | runs | result |", "|---|---|---|---|"]
        lines += [f"| {name} | {seconds:.0f} | {runs or ''} | {result} |" for name, seconds, runs, result in self.rows]
        total = sum(seconds for _, seconds, _, _ in self.rows)
        return "\n".join([*lines, f"| all | {total:.0f} | {sum(row[2] for row in self.rows)} | |"])


def run(folder: Path, protocol: str, candidates: int, jobs: int) -> Phases:
    """The whole study in a folder."""
    phases, engine = Phases(), LocalEngine(jobs)
    with phases.phase("simulate and ingest") as found:
        simulate_pair(folder / "logs", "demo")
        for kind, name in (("thws", "source"), ("joanneum", "target")):
            rule = rules_of(protocol).ingest_rule or "crossfeed"
            table = ingest(log_format_named(kind), folder / "logs" / kind, rule=rule)
            table.write(folder / f"{name}.parquet")
            found.append(f"{len(table)} {name} rows")
    with phases.phase("init") as found:
        paths = [folder / "source.parquet"], [folder / "target.parquet"]
        settings = SETTINGS | OWN[rules_of(protocol).preset]
        study = Study.init(folder / "study", *paths, protocol, "tiny", settings, MINIMUM_SEEDS)
        found.append(f"{study.protocol['windows']['train']['count']} train windows, target sealed")

    def finished() -> int:
        return sum(run.status in ("finished", "invalid") for run in study.store.runs())

    every, first = study.candidates(), FIRST[rules_of(protocol).preset]
    chosen = {name: every[name] for name in [*first, *(name for name in every if name not in first)][:candidates]}
    with phases.phase("search", finished) as found:
        study.plan(chosen, SEEDS)
        study.search(engine)
        found.append(f"{len(study.store.runs('invalid'))} invalid, {study.rank()[0].candidate} leads")
    with phases.phase("confirm", finished) as found:
        confirmed = study.confirm(engine, MOST_SEEDS)
        found += [f"{count} seeds: {name}" for count, name in confirmed.leaders.items()]
    show_ranking(study)
    if _lock(phases, study):
        with phases.phase("unseal") as found:
            result = study.unseal()
            found.append(_scores(result))
        show_target_result(result)
        name, arms = ABLATIONS[rules_of(protocol).preset]
        with phases.phase(f"declared ablation {name}", finished) as found:
            study.declare(name, arms, PAIRS)
            study.search(engine)
            lines = [line for line in study.contrasts() if (line.contrast, line.metric) == (name, "clean")]
            found.append(f"clean RMSE {lines[1].difference:+.4f} over {lines[1].seeds} pairs, p {lines[1].p:.3g}")
        with phases.phase("unseal the ablation") as found:
            try:
                found.append(_scores(study.unseal(name)))
            except ConfigError as refusal:
                found.append(refusal.found)
    with phases.phase("verify and export") as found:
        verified = study.verify()
        archive = export(study.store, folder / "study.tar.gz")
        found.append(f"{verified.entries} ledger entries, {len(verified.problems)} problems")
        found.append(f"archive {archive.stat().st_size / 2**20:.0f} MiB")
    return phases


def _lock(phases: Phases, study: Study) -> bool:
    """Lock, or take the refusal as the result."""
    with phases.phase("lock") as found:
        try:
            locked = study.lock()
        except ConfigError as refusal:
            found.append(refusal.found)
            return False
        found.append(f"{locked['candidate']}, seed {locked['seed']}")
    return True


def _scores(result: dict[str, Any]) -> str:
    return ", ".join(f"{name} {scores['rmse']:.3f}" for name, scores in result["scores"].items())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="rewrite benchmarks/study.md")
    options.add_argument("--protocol", choices=tuple(PROTOCOLS), default="crossfeed")
    options.add_argument("--candidates", type=int, default=100, help="at most so many of the protocol's candidates")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--keep", type=Path, help="work in this new folder and keep it")
    chosen = options.parse_args()
    be_quiet(not os.isatty(2))
    folder = chosen.keep or Path(tempfile.mkdtemp())
    try:
        phases = run(folder, chosen.protocol, chosen.candidates, chosen.jobs)
    finally:
        if not chosen.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(phases.table())
    if chosen.write:
        note = (
            f"{datetime.now(UTC):%Y-%m-%d}, {chosen.jobs} jobs with one thread each on {os.cpu_count()} cores "
            f"({platform.machine()}), Python {platform.python_version()}: candidates of the {chosen.protocol} protocol "
            f"with {SEEDS} seeds, `python benchmarks/study.py --write`."
        )
        text = f"# A complete miniature study\n\n{note}\n\n{phases.table()}\n\nRMSE in z-units of the source.\n"
        Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
