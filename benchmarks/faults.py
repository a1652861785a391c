"""Everything that can go wrong around a command: kills, full and read-only disks, second processes, clocks, damage.

    python benchmarks/faults.py [--kills 100] [--damage 200] [--seed 0] [--out docs/faults.md]

Victims are forked from one process that has imported everything, so that a kill strikes the work and not the start.
Each operation is first done undisturbed; every disturbed one, repeated as a user would repeat it, must end with the
same content. A search of a study with its own processes is killed by benchmarks/kill_search.py.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars
import torch

from crossfeed.adaptation.fewshot import FewShotConfig
from crossfeed.adaptation.model_adaptation import adapt_model
from crossfeed.baselines.budget import Budget
from crossfeed.baselines.compare import compare
from crossfeed.configuration import override
from crossfeed.errors import CrossfeedError
from crossfeed.evaluation.model_evaluation import evaluate_model
from crossfeed.ingest.pipeline import ingest
from crossfeed.ingest.table import Table
from crossfeed.machines.declaration import CLOCK, LABEL, MICROSECONDS, PROGRAM, Column, LogFormat, RawRun, Segmentation
from crossfeed.machines.delimited import read_log
from crossfeed.machines.files import find_files
from crossfeed.model.model_file import read_model_file
from crossfeed.progress import be_quiet
from crossfeed.reporting.artefacts import read_json
from crossfeed.schema import Channel, Schema
from crossfeed.study.study import Study
from crossfeed.training.record.checkpoint import STATE, load_state
from crossfeed.training.record.history import read_history
from crossfeed.training.run import train
from crossfeed.training.run_config import RunConfig, preset

SMALL: dict[str, Any] = {
    "model.context": 8, "model.width": 16, "model.heads": 2, "model.members": 1, "model.horizons": [1, 2, 4],
    "training.batch_size": 16, "training.steps_per_epoch": 6, "training.finetune_epochs": 6,
    "training.validation_windows": 64,
}  # fmt: skip
NOBODY = 65534
SENSORS = ("spindle_current", "x_current", "y_current", "spindle_power")
COLUMNS = (
    *(Column(name, name, "A") for name in SENSORS[:3]), Column("spindle_power", "spindle_power", "W"),
    Column("spindle_speed", "spindle_speed", "rpm"), Column("feed_x", "feed_x", "mm/min"),
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
TIDY, SPOKEN, TRACEBACK = 0, 3, 4


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


@dataclass
class Tally:
    """What happened in one kind of trial."""

    tries: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    worst: float = 0.0
    notes: list[str] = field(default_factory=list)

    def row(self, *names: str) -> str:
        """The cells of a table."""
        return " | ".join([str(self.tries), *(str(self.counts[name]) for name in names)])


def operations(material: Path) -> list[Operation]:
    """Each works in a folder of its own on material that is never written to."""
    source, target = material / "source.parquet", material / "target.parquet"

    def tensors(path: Path) -> str:
        file = read_model_file(path)
        return json.dumps({name: tensor.double().sum().item() for name, tensor in file.tensors.items()})

    def compared(folder: Path) -> Any:
        table = json.loads((folder / "out" / "table.json").read_text())
        return _without_seconds(table)

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
                _without_seconds(json.loads((folder / "out" / "adaptation.json").read_text())),
            ],
        ),
        Operation(
            "evaluate",
            lambda folder: _ignore(evaluate_model(material / "run", target, out=folder / "out", device="cpu")),
            lambda folder: json.loads((folder / "out" / "evaluation.json").read_text()),
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
    ]  # fmt: skip


def _plan(folder: Path, source: Path) -> None:
    study = Study.open_or_init(folder, [source], shared=SENSORS[:3], size="tiny", settings=SMALL)
    study.plan(study.candidates(["preset", "one_mover"]), seeds=2)


def _ignore(_: object) -> None:
    return None


def _without_seconds(content: Any) -> Any:
    """Without what a clock measured and where a folder lay."""
    if isinstance(content, dict):
        left_out = ("seconds", "models", "time", "date")
        return {name: _without_seconds(value) for name, value in content.items() if name not in left_out}
    return [_without_seconds(value) for value in content] if isinstance(content, list) else content


def forked(work: Callable[[], None], quiet: bool = True) -> int:
    """Start work in a child: exit code 0 when done, SPOKEN for an error in words, TRACEBACK for any other."""
    child = os.fork()
    if child:
        return child
    code = TRACEBACK
    try:
        if quiet:
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
        be_quiet()
        work()
        code = TIDY
    except CrossfeedError as error:
        code = SPOKEN
        if not quiet:
            os.write(2, f"{error}\n".encode())
    except BaseException:
        if os.environ.get("FAULTS_SHOW"):
            os.write(1, traceback.format_exc().encode())
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """How a child ended: its exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_child(work: Callable[[], Any]) -> Any:
    """What work gives, computed in a child: this process itself must never start polars' threads."""
    reading, writing = os.pipe()

    def told() -> None:
        os.write(writing, json.dumps(work()).encode())

    child = forked(told)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    code = ended(child)
    return json.loads(text) if code == TIDY else {"exit code": code}


def kills(folder: Path, every: list[Operation], count: int, moments: random.Random) -> dict[str, Tally]:
    """SIGKILL somewhere between start and end, once or twice, then the same command again."""
    found = {}
    for operation in every:
        calm = _place(folder, f"calm {operation.name}")
        began = time.perf_counter()
        assert ended(forked(lambda: operation.do(calm))) == TIDY, operation.name  # noqa: B023
        length, wanted = time.perf_counter() - began, in_child(lambda: operation.content(calm))  # noqa: B023
        tally = found[operation.name] = Tally()
        while tally.tries < count:
            place = _place(folder, "killed")
            for _ in range(moments.choice((1, 1, 2))):
                child = forked(lambda: operation.do(place))  # noqa: B023
                time.sleep(moments.uniform(0.0, 1.1 * length))
                os.kill(child, signal.SIGKILL)
                tally.tries += 1
                tally.counts["struck"] += ended(child) == -signal.SIGKILL
            began = time.perf_counter()
            code = ended(forked(lambda: operation.do(place)))  # noqa: B023
            tally.worst = max(tally.worst, time.perf_counter() - began)
            if code != TIDY:
                tally.counts["not resumed"] += 1
            elif in_child(lambda: operation.content(place)) != wanted:  # noqa: B023
                tally.counts["other content"] += 1
            tally.counts["left over"] += sum(1 for path in place.rglob(".*.partial"))
        print(f"kills {operation.name}: {dict(tally.counts)}, {length:.1f} s undisturbed", file=sys.stderr, flush=True)
    return found


def full_disk(folder: Path, every: list[Operation], count: int, moments: random.Random) -> dict[str, Tally]:
    """No file may grow beyond a random size; an error in words, and afterwards the same command works."""

    def limited(operation: Operation, place: Path, limit: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        operation.do(place)

    found = {}
    for operation in every:
        calm = _place(folder, f"calm {operation.name}")
        if not any(calm.iterdir()):
            ended(forked(lambda: operation.do(calm)))  # noqa: B023
        sizes = sorted({path.stat().st_size for path in calm.rglob("*") if path.is_file()}) or [1]
        wanted = in_child(lambda: operation.content(calm))  # noqa: B023
        tally = found[operation.name] = Tally()
        for _ in range(count):
            place, limit = _place(folder, "full"), moments.choice([0, *(moments.randrange(size + 1) for size in sizes)])
            code = ended(forked(lambda: limited(operation, place, limit)))  # noqa: B023
            tally.tries += 1
            tally.counts["said in words" if code == SPOKEN else "traceback" if code == TRACEBACK else "done"] += 1
            if ended(forked(lambda: operation.do(place))) != TIDY:  # noqa: B023
                tally.counts["not resumed"] += 1
            elif in_child(lambda: operation.content(place)) != wanted:  # noqa: B023
                tally.counts["other content"] += 1
    return found


def read_only(folder: Path, every: list[Operation]) -> dict[str, Tally]:
    """A folder that nobody may write to."""

    def powerless(operation: Operation, place: Path) -> None:
        if os.geteuid() == 0:
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
        operation.do(place)

    found = {}
    for operation in every:
        place = _place(folder, "read-only")
        place.chmod(0o555)
        code = ended(forked(lambda: powerless(operation, place)))  # noqa: B023
        place.chmod(0o755)
        tally = found[operation.name] = Tally(1)
        tally.counts["said in words" if code == SPOKEN else "traceback" if code == TRACEBACK else "done"] += 1
        tally.counts["left over"] += sum(1 for _ in place.rglob("*"))
    return found


def two_at_once(folder: Path, every: list[Operation], count: int) -> dict[str, Tally]:
    """Two processes in one folder: one works, the other waits or is told so; the content is that of one alone."""
    found = {}
    for operation in every:
        wanted = in_child(lambda: operation.content(_place(folder, f"calm {operation.name}", keep=True)))  # noqa: B023
        tally = found[operation.name] = Tally()
        for _ in range(count):
            place = _place(folder, "shared")
            children = [forked(lambda: operation.do(place)) for _ in range(2)]  # noqa: B023
            codes = [ended(child) for child in children]
            tally.tries += 1
            tally.counts["both done"] += codes == [TIDY, TIDY]
            tally.counts["one told so"] += sorted(codes) == [TIDY, SPOKEN]
            tally.counts["traceback"] += TRACEBACK in codes
            if TIDY not in codes or in_child(lambda: operation.content(place)) != wanted:  # noqa: B023
                tally.counts["other content"] += 1
    return found


def jumping_clock(folder: Path, every: list[Operation], count: int, moments: random.Random) -> dict[str, Tally]:
    """Every look at the clock may be a year before or after the last one."""

    def jumpy(operation: Operation, place: Path) -> None:
        real = time.time
        time.time = lambda: real() + moments.uniform(-3.2e7, 3.2e7)
        operation.do(place)

    found = {}
    for operation in every:
        wanted = in_child(lambda: operation.content(_place(folder, f"calm {operation.name}", keep=True)))  # noqa: B023
        tally = found[operation.name] = Tally()
        for _ in range(count):
            place = _place(folder, "clock")
            tally.tries += 1
            if ended(forked(lambda: jumpy(operation, place))) != TIDY:  # noqa: B023
                tally.counts["failed"] += 1
            elif in_child(lambda: operation.content(place)) != wanted:  # noqa: B023
                tally.counts["other content"] += 1
    return found


def little_memory(folder: Path, every: list[Operation]) -> dict[str, Tally]:
    """Two gigabytes of data and no more."""

    def small(operation: Operation, place: Path) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
        operation.do(place)

    found = {}
    for operation in every:
        place = _place(folder, "memory")
        tally = found[operation.name] = Tally(1)
        tally.counts["done"] += ended(forked(lambda: small(operation, place))) == TIDY  # noqa: B023
    return found


def damage(folder: Path, material: Path, count: int, moments: random.Random) -> dict[str, Tally]:
    """One bit turned, or the end cut off; a reader finds it, or reads exactly what was written."""
    cpu = torch.device("cpu")

    def sums(tensors: dict[str, Any]) -> Any:
        return {
            name: [float(tensor.double().sum()), float(tensor.double().square().sum())]
            for name, tensor in tensors.items()
        }

    def database(path: Path) -> Any:
        study = Study(path.parent)
        return [list(study.verify().problems), [run.name for run in study.store.runs()], study.verify().head]

    def state(path: Path) -> Any:
        loaded = load_state(path.parent, cpu)
        assert loaded is not None
        parts = (loaded.model, loaded.optimiser, loaded.best_model, loaded.average)
        return [loaded.stage, loaded.epoch, loaded.history, *(sums(part) for part in parts)]

    def table(path: Path) -> Any:
        read = Table.read(path)
        return [
            read.fingerprint(),
            read.period,
            {name: float(np.nansum(values)) for name, values in read.extras.items()},
        ]

    kinds: dict[str, tuple[Path, Callable[[Path], Any]]] = {
        "table": (material / "source.parquet", table),
        "model": (material / "run" / "model.safetensors", lambda path: sums(read_model_file(path).tensors)),
        "training state": (material / "stopped" / STATE, state),
        "best weights": (
            next((material / "stopped").glob("best-*.safetensors")),
            lambda path: state(path.parent / STATE),
        ),
        "history": (material / "run" / "history.parquet", lambda path: read_history(path)),
        "study": (material / "study" / "study.db", database),
        "result": (material / "results" / "evaluation.json", lambda path: read_json(path)),
    }
    if (material / "model.onnx").exists():
        from crossfeed.edge import EdgeModel

        kinds["export"] = (
            material / "model.onnx",
            lambda path: sorted(EdgeModel(path).metadata["hashes"].values()),
        )
    found = {}
    for name, (path, read) in kinds.items():
        whole, wanted = path.read_bytes(), in_child(lambda: read(path))  # noqa: B023
        tally = found[name] = Tally()
        for number in range(count):
            place = _place(folder, "damaged")
            shutil.copytree(path.parent, place, dirs_exist_ok=True)
            spot = moments.randrange(len(whole))
            changed = whole[:spot] if number % 4 == 0 else _flipped(whole, spot, moments)
            (place / path.name).write_bytes(changed)
            for beside in place.glob(f"{path.name}-*"):  # a journal would repair a database
                beside.unlink()
            told = in_child(lambda: read(place / path.name))  # noqa: B023
            tally.tries += 1
            code = told.get("exit code") if isinstance(told, dict) else None
            if code == SPOKEN:
                tally.counts["found"] += 1
            elif code is not None:
                tally.counts["traceback"] += 1
            elif told == wanted:
                tally.counts["harmless"] += 1
            elif name == "study" and told[0]:
                tally.counts["found"] += 1
            else:
                tally.counts["SILENT"] += 1
        print(f"damage {name}: {dict(tally.counts)}", file=sys.stderr, flush=True)
    return found


def _flipped(content: bytes, spot: int, moments: random.Random) -> bytes:
    return content[:spot] + bytes([content[spot] ^ (1 << moments.randrange(8))]) + content[spot + 1 :]


def _place(folder: Path, name: str, keep: bool = False) -> Path:
    place = folder / name
    if not keep and not name.startswith("calm"):
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    return place


def prepare(material: Path, with_export: bool) -> None:
    """Two small machines, their tables, a finished and a stopped run, results, a study."""
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
    _plan(material / "study", material / "source.parquet")
    with sqlite3.connect(material / "study" / "study.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if with_export:
        from crossfeed.export.export import export_model

        export_model(material / "run", material / "model.onnx")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=100, help="in all, over the operations")
    options.add_argument("--full", type=int, default=5, help="full disks for each operation")
    options.add_argument("--damage", type=int, default=200, help="for each kind of file")
    options.add_argument("--only", default="", help="operations, with commas in between")
    options.add_argument("--parts", default="damage,kills,full,readonly,two,clock,memory")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--export", action="store_true", help="damage an exported model as well")
    options.add_argument("--out", type=Path)
    asked = options.parse_args()
    torch.set_num_threads(1)
    be_quiet()
    moments, folder = random.Random(asked.seed), Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    parts, lines = asked.parts.split(","), ["# Faults", ""]
    try:
        material = folder / "material"
        assert ended(forked(lambda: prepare(material, asked.export), quiet=False)) == TIDY, "no material"
        every = [one for one in operations(material) if not asked.only or one.name in asked.only.split(",")]
        heads = {
            "damage": ("file", "tries", "found", "harmless", "SILENT", "traceback"),
            "kills": ("command", "tries", "struck", "not resumed", "other content", "left over"),
            "full": ("command", "tries", "said in words", "done", "traceback", "not resumed", "other content"),
            "readonly": ("command", "tries", "said in words", "done", "traceback", "left over"),
            "two": ("command", "tries", "both done", "one told so", "traceback", "other content"),
            "clock": ("command", "tries", "failed", "other content"),
            "memory": ("command", "tries", "done"),
        }
        per = max(1, asked.kills // max(1, len(every)))
        trials: dict[str, Callable[[], dict[str, Tally]]] = {
            "damage": lambda: damage(folder, material, asked.damage, moments),
            "kills": lambda: kills(folder, every, per, moments),
            "full": lambda: full_disk(folder, every, asked.full, moments),
            "readonly": lambda: read_only(folder, every),
            "two": lambda: two_at_once(folder, every, 2),
            "clock": lambda: jumping_clock(folder, every, 2, moments),
            "memory": lambda: little_memory(folder, every),
        }
        for part in parts:
            began, found = time.perf_counter(), trials[part]()
            names = heads[part]
            lines += [f"## {part}", "", f"| {' | '.join(names)} |", "|---|" + "---:|" * (len(names) - 1)]
            lines += [f"| {name} | {tally.row(*names[2:])} |" for name, tally in found.items()]
            worst = max((tally.worst for tally in found.values()), default=0.0)
            lines += [
                "",
                f"{time.perf_counter() - began:.0f} s." + (f" Longest repeat: {worst:.1f} s." if worst else ""),
                "",
            ]
            print("\n".join(lines[-len(found) - 6 :]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if asked.out:
        asked.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
