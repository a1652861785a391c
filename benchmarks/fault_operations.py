"""What a user does, small enough for a hundred times: how it is done, also after a fault, and what is then there."""

import asyncio
import hashlib
import json
import os
import resource
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars
import yaml
from fault_children import ended, forked

from crossfeed.adaptation.fewshot import FewShotConfig
from crossfeed.adaptation.model_adaptation import adapt_model
from crossfeed.baselines.budget import Budget
from crossfeed.baselines.compare import compare
from crossfeed.configuration import override
from crossfeed.demo import rivals, selection, settings
from crossfeed.demo.story import run_demo
from crossfeed.evaluation.model_evaluation import evaluate_model
from crossfeed.ingest.pipeline import ingest
from crossfeed.ingest.table import Table
from crossfeed.json_file import read_sealed
from crossfeed.live.recorder import record
from crossfeed.live.sources import SourceOptions, open_source
from crossfeed.live.spool import HEADER, read_spool
from crossfeed.live.to_table import spool_to_table
from crossfeed.locks import locked
from crossfeed.machines.declaration import (
    CLOCK,
    LABEL,
    MICROSECONDS,
    PROGRAM,
    LogFormat,
    NativeColumn,
    RawRun,
    Segmentation,
)
from crossfeed.machines.delimited import read_log
from crossfeed.machines.files import find_files
from crossfeed.machines.simulated.fleet import simulate_fleet
from crossfeed.model.model_file import read_model_file
from crossfeed.schema import Channel, Schema
from crossfeed.study import lock, study
from crossfeed.study.study import Study
from crossfeed.training.run import train
from crossfeed.training.run_config import RunConfig, preset

SMALL: dict[str, Any] = {
    "model.context": 8, "model.width": 16, "model.heads": 2, "model.members": 1, "model.horizons": [1, 2, 4],
    "training.batch_size": 16, "training.steps_per_epoch": 6, "training.finetune_epochs": 6,
    "training.validation_windows": 64,
}  # fmt: skip
LIVE_ROWS, LIVE_BYTES = 400, 700  # of the log that is recorded, and how much of it is written in a tenth of a second
SENSORS = ("spindle_current", "x_current", "y_current", "spindle_power")
COLUMNS = (
    *(NativeColumn(name, name, "A") for name in SENSORS[:3]), NativeColumn("spindle_power", "spindle_power", "W"),
    NativeColumn("spindle_speed", "spindle_speed", "rpm"), NativeColumn("feed_x", "feed_x", "mm/min"),
)  # fmt: skip
SCHEMA = Schema(
    name="faults",
    sensors=(
        *(Channel(name=name, quantity="current", unit="A") for name in SENSORS[:3]),
        Channel(name="spindle_power", quantity="power", unit="kW"),
    ),
    commands=(
        Channel(name="spindle_speed", quantity="rotational speed", unit="rpm"),
        Channel(name="feed_x", quantity="feed", unit="mm/min"),
    ),
)


def write_logs(folder: Path, gain: float) -> None:
    """Ten short runs of a machine that follows its commands."""
    draw = np.random.default_rng(round(10 * gain))
    folder.mkdir(parents=True)
    for run in range(10):
        speed, feed = (np.repeat(draw.choice([0.0, 2000.0, 4000.0], 20), 5) for _ in range(2))
        state, lines = np.zeros(4), [",".join([*SENSORS, "spindle_speed", "feed_x"])]
        for row in range(100):
            state = 0.6 * state + 0.4 * gain * np.array(
                [speed[row] / 400, feed[row] / 300, feed[row] / 900, speed[row]]
            )
            values = [*(state + draw.normal(size=4) * 0.05), speed[row], feed[row]]
            lines.append(",".join(f"{value:.4f}" for value in values))
        (folder / f"run_{run}.csv").write_text("\n".join(lines) + "\n")


def read_runs(kind: LogFormat, path: Path) -> Iterator[RawRun]:
    """Each file is one run; rows are one second apart."""
    for file in find_files(path, ["*.csv"]):
        frame, repairs = read_log(file, kind.columns)
        clock = polars.int_range(frame.height, eager=True) * MICROSECONDS
        names = {CLOCK: clock, PROGRAM: polars.lit("part"), LABEL: polars.lit(file.stem)}
        frame = frame.with_columns(*(value.alias(name) for name, value in names.items()))
        yield RawRun(file.stem, frame, frame.height, (file,), repairs)


LOG_FORMAT = LogFormat("faults", "a small machine", "faults", SCHEMA, COLUMNS, 1.0, Segmentation(), read_runs)


def config() -> RunConfig:
    """A run of a second or two."""
    return override(preset("crossfeed", "tiny"), SMALL)


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
            lambda folder: _ignore(evaluate_model(material / "run", target, out=folder / "out", device="cpu")),
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
        Operation("live record", lambda folder: _record(folder, material), _recorded),
        Operation("demo", lambda folder: _demo(folder / "out", material), _told, share=0.5),
    ]  # fmt: skip


def _plan(folder: Path, source: Path) -> None:
    study = Study.open_or_init(folder, [source], shared=SENSORS[:3], size="tiny", settings=SMALL)
    study.plan(study.candidates(["preset", "one_mover"]), seeds=2)


def _record(folder: Path, material: Path, name: str = "out") -> None:
    """Record a log while it grows, until its last row is in the spool; a log that was begun goes on growing."""
    whole, log, spool = (material / "live.csv").read_bytes(), folder / "log.csv", folder / name
    last = (LIVE_ROWS - 1) * MICROSECONDS

    def grow() -> None:
        """The logger is a process of its own: neither our kills nor our full disk are its own."""
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        with locked(material / ".logger.lock"), log.open("ab") as file:
            for start in range(file.tell(), len(whole), LIVE_BYTES):
                file.write(whole[start : start + LIVE_BYTES])
                file.flush()
                time.sleep(0.1)

    async def work() -> None:
        source = open_source(f"file:{log}", SourceOptions(mapping=material / "live.yaml"))
        recording = asyncio.create_task(record(source, spool))
        while not recording.done():
            if (spool / HEADER).exists() and any(s.time >= last for r in read_spool(spool) for s in r.samples):
                recording.cancel()
            await asyncio.wait({recording}, timeout=0.2)
        with suppress(asyncio.CancelledError):
            recording.result()

    logger = forked(grow)
    try:
        asyncio.run(work())
    finally:
        with suppress(ProcessLookupError):
            os.kill(logger, signal.SIGKILL)
        ended(logger)


def _recorded(folder: Path) -> Any:
    """Losses and doubles would both show: rows in the table, and what the spool holds more than once."""
    table = spool_to_table(folder / "out")
    return [table.fingerprint(), len(table), table.manifest["live"]]


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


def _write_live(material: Path) -> None:
    """A log with a clock and its mapping, for the recorder."""
    draw = np.random.default_rng(7)
    values = np.column_stack([np.arange(LIVE_ROWS), draw.normal(size=(LIVE_ROWS, 5)).round(3)])
    names = ["t", "spindle_current", "x_current", "spindle_speed", "feed_x", "feed_y"]
    lines = [",".join(names), *(",".join(f"{value:g}" for value in row) for row in values)]
    (material / "live.csv").write_text("\n".join(lines) + "\n")
    units = {"spindle_current": "A", "x_current": "A", "spindle_speed": "rpm", "feed_x": "mm/min", "feed_y": "mm/min"}
    columns: list[dict[str, Any]] = [{"native": name, "channel": name, "unit": unit} for name, unit in units.items()]
    columns.append({"channel": "feed_z", "constant": 0, "unit": "mm/min"})
    mapping = {"machine": "mill", "time": {"column": "t", "unit": "s"}, "columns": columns}
    (material / "live.yaml").write_text(yaml.safe_dump(mapping))


def prepare(material: Path, with_export: bool) -> None:
    """Two small machines, their tables, a finished and a stopped run, results, a study."""
    material.mkdir()
    _write_live(material)
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
    evaluate_model(material / "run", material / "target.parquet", out=material / "results", device="cpu")
    _record(material, material, "spool")
    _plan(material / "study", material / "source.parquet")
    with sqlite3.connect(material / "study" / "study.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if with_export:
        from crossfeed.export.export import export_model

        export_model(material / "run", material / "model.onnx")
