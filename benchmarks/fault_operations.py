"""What a user does, small enough for a hundred times: how it is done, also after a fault, and what is then there."""

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_material import LOG_FORMAT, SENSORS, SMALL, config, write_live, write_logs
from fault_recording import record_log, recorded

from crossfeed.demo import chapter as settings
from crossfeed.demo import results as rivals
from crossfeed.demo import selection
from crossfeed.demo.story import run_demo
from crossfeed.evaluation.adaptation.fewshot import FewShotConfig
from crossfeed.evaluation.adaptation.model_adaptation import adapt_model
from crossfeed.evaluation.baselines.budget import Budget
from crossfeed.evaluation.baselines.compare import compare
from crossfeed.evaluation.judge import evaluate
from crossfeed.files import read_sealed
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Table
from crossfeed.model.model_file import read_model_file
from crossfeed.sim.factory.draw import NEIGHBOURS
from crossfeed.sim.factory.shards import FleetPlan, generate, shard_paths
from crossfeed.sim.simulate import simulate_fleet
from crossfeed.study import lock, study
from crossfeed.study.study import Study
from crossfeed.training.run import train


@dataclass(frozen=True)
class Operation:
    """Something a user does: how it is done (also again, after a fault) and what is then there."""

    name: str
    do: Callable[[Path], None]
    content: Callable[[Path], Any]
    share: float = 1.0  # of the tries of the others

    def tries(self, count: int) -> int:
        """How often, where the others get `count`."""
        return max(1, round(self.share * count))


def operations(material: Path) -> list[Operation]:
    """Each works in a folder of its own on material that is never written to."""
    source, target = material / "source.parquet", material / "target.parquet"

    def tensors(path: Path) -> str:
        file = read_model_file(path)
        return json.dumps({name: tensor.double().sum().item() for name, tensor in file.tensors.items()})

    def compared(folder: Path) -> Any:
        return _without_seconds(read_sealed(folder / "out" / "table.json"))

    return [
        Operation(
            "ingest",
            lambda folder: ingest(LOG_FORMAT, material / "source").write(folder / "out" / "table.parquet"),
            lambda folder: Table.read(folder / "out" / "table.parquet").fingerprint(),
        ),
        Operation(
            "train",
            lambda folder: _ignore(train([Table.read(source)], config(), folder / "out", resume=True, device="cpu")),
            lambda folder: tensors(folder / "out" / "model.safetensors"),
        ),
        Operation(
            "adapt",
            lambda folder: _ignore(
                adapt_model(
                    material / "run", target, fewshot=FewShotConfig(fractions=(0.0, 0.1), steps=3),
                    source=source, out=folder / "out", device="cpu",
                )
            ),
            lambda folder: [
                tensors(folder / "out" / "few_shot.safetensors"),
                _without_seconds(read_sealed(folder / "out" / "adaptation.json")),
            ],
        ),
        Operation(
            "evaluate",
            lambda folder: _ignore(evaluate(material / "run", target, out=folder / "out", device="cpu")),
            lambda folder: read_sealed(folder / "out" / "evaluation.json"),
        ),
        Operation(
            "compare",
            lambda folder: _ignore(
                compare(
                    [Table.read(source)], Table.read(target), folder / "out", models="persistence,ridge,mlp", seeds=1,
                    budget=Budget(epochs=2, pretext_epochs=0, steps=4, batch_size=16), config=config(), device="cpu",
                )
            ),
            compared,
        ),
        Operation(
            "study init and plan",
            lambda folder: _plan(folder / "out", source),
            lambda folder: [
                list(Study(folder / "out").verify().problems),
                sorted(run.name for run in Study(folder / "out").store.runs()),
            ],
        ),
        Operation(
            "simulate",
            lambda folder: _ignore(simulate_fleet(folder / "out", 1)),
            lambda folder: {
                str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(folder.rglob("[!.]*")) if path.is_file()
            },
        ),
        Operation(
            "fleet generate",
            lambda folder: _ignore(generate(folder / "out", FleetPlan(machines=NEIGHBOURS + 1, minutes=2), jobs=1)),
            lambda folder: [Table.read(path).fingerprint() for path in shard_paths(folder / "out")],
        ),
        Operation("live record", lambda folder: record_log(folder, material), recorded),
        Operation("demo", lambda folder: _demo(folder / "out", material), _told, share=0.5),
    ]  # fmt: skip


def _plan(folder: Path, source: Path) -> None:
    study = Study.open_or_init(folder, [source], shared=SENSORS[:3], size="tiny", settings=SMALL)
    study.plan(study.candidates(["preset", "one_mover"]), seeds=2)


def _demo(folder: Path, material: Path) -> None:
    """All chapters of the demo, with tables, candidates and rivals of a size that can be killed a dozen times."""

    def make_tables(folder: Path, _: settings.DemoSettings) -> tuple[Table, Table]:
        tables = Table.read(material / "source.parquet"), Table.read(material / "target.parquet")
        for table, name in zip(tables, ("source", "target"), strict=True):
            table.write(folder / f"{name}.parquet")
        return tables

    selection.make_tables = make_tables
    settings.MODEL = SMALL | {"training.warmup_steps": 0}
    selection.CANDIDATES = {"as_the_preset": {}, "four_movers": {"model.movers": 4}}
    selection.JOBS = rivals.JOBS = 1
    rivals.RIVALS = ("persistence", "ridge")
    lock.refusals = study.refusals = lambda _: []  # after so few steps no model listens to commands
    run_demo(folder, settings.DemoSettings(data="michigan", logs=Path("logs")))


def _told(folder: Path) -> Any:
    """The headline, and a ledger in which the target was opened once."""
    told = Study(folder / "out" / "study")
    headline = read_sealed(folder / "out" / "headline.json")
    kinds = [entry.kind for entry in told.ledger()]
    return [headline["rows"], kinds.count("opening"), sorted(kinds), list(told.verify().problems)]


def _ignore(_: object) -> None:
    return None


def _without_seconds(content: Any) -> Any:
    """Without what a clock measured and where a folder lay."""
    if isinstance(content, dict):
        left_out = ("seconds", "models", "time", "date")
        return {name: _without_seconds(value) for name, value in content.items() if name not in left_out}
    return [_without_seconds(value) for value in content] if isinstance(content, list) else content


def prepare(material: Path, with_export: bool) -> None:
    """Two small machines, their tables, a finished and a stopped run, results, a study."""
    material.mkdir()
    write_live(material)
    for name, gain in (("source", 1.0), ("target", 1.3)):
        write_logs(material / name, gain)
        ingest(LOG_FORMAT, material / name, machine=name).write(material / f"{name}.parquet")
    source = Table.read(material / "source.parquet")
    train([source], config(), material / "run", device="cpu")

    def stop(row: Any) -> None:
        if row["epoch"] == 2:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        train([source], config(), material / "stopped", device="cpu", on_epoch=stop)
    evaluate(material / "run", material / "target.parquet", out=material / "results", device="cpu")
    record_log(material, material, "spool")
    _plan(material / "study", material / "source.parquet")
    with sqlite3.connect(material / "study" / "study.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if with_export:
        from crossfeed.front.export import export_model

        export_model(material / "run", material / "model.onnx")
