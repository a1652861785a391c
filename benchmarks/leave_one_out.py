"""Can a model of several machines forecast one that it never saw, and does it know the machines apart?

python benchmarks/leave_one_out.py OUT                                          # eight simulated fleet machines
python benchmarks/leave_one_out.py OUT --mazak logs/mazak --michigan logs/mich  # two real machines and a simulated one

Runs the ready study `leave-one-out` with small models of the paper's network and prints its table and what it cost.
"""

import argparse
import resource
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from crossfeed.cli.render.printing import show
from crossfeed.jobs import LocalEngine
from crossfeed.logs.align import align
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Table
from crossfeed.schema import Schema
from crossfeed.sim.factory.generate import draw_table
from crossfeed.study.study import Study
from crossfeed.study.tables import machines_table

MACHINES, MINUTES, ROWS, SESSIONS = 8, 90.0, 2_500, 6
SETTINGS: dict[str, Any] = {
    "model.context": 16,
    "model.blocks.width": 32,
    "model.blocks.heads": 2,
    "model.encoder.channel_layers": 1,
    "model.encoder.temporal_layers": 1,
    "data.stride": 4,
    "training.batch_size": 32,
    "training.steps_per_epoch": 20,
    "training.pretrain_epochs": 1,
    "training.finetune_epochs": 5,
    "training.learning_rate": 0.003,
    "training.validation_windows": 128,
}


def fleet(machines: int = MACHINES) -> list[Table]:
    """The first machines of the fleet that are logged once a second in enough sessions, each as a table of its own."""
    found: list[Table] = []
    for number in count():
        (table,) = draw_table(0, [number], 2.0)
        if table.period == 1.0:
            (table,) = draw_table(0, [number], MINUTES)
            found += [table] if len(table.groups) >= SESSIONS else []
        if len(found) == machines:
            return found
    raise AssertionError


def real(mazak: Path, michigan: Path) -> list[Table]:
    """The Mazak, the Michigan mill and a simulated machine in rows of a second and in one schema."""
    tables = [
        first_rows(ingest(log_format_named("mtconnect"), mazak, period=1.0)),
        first_rows(ingest(log_format_named("michigan"), michigan, period=1.0)),
        *fleet(1),
    ]
    schema = common_schema([table.schema for table in tables])
    return [align(table, schema) for table in tables]


def first_rows(table: Table) -> Table:
    """Every n-th session, so that a long log does not outweigh the others."""
    step = max(1, round(len(table) / ROWS))
    return table.select(table.groups[::step])


def common_schema(schemas: Sequence[Schema]) -> Schema:
    """Every sensor and command of any of them; who lacks one leaves it empty, or standing still."""
    sensors = {
        channel.name: channel for schema in reversed(schemas) for channel in schema.sensors
        if channel.quantity != "unknown"
    }  # fmt: skip
    commands = {channel.name: channel for schema in reversed(schemas) for channel in schema.commands}
    return Schema(name="common", sensors=tuple(sensors.values()), commands=tuple(commands.values()))


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("out", type=Path)
    words.add_argument("--mazak", type=Path)
    words.add_argument("--michigan", type=Path)
    words.add_argument("--seeds", type=int, default=1)
    words.add_argument("--jobs", type=int, default=1)
    given = words.parse_args()
    began, paths = time.time(), []
    for table in real(given.mazak, given.michigan) if given.mazak else fleet():
        paths.append(given.out / f"{table.machines()[0]}.parquet")
        table.write(paths[-1])
        print(f"{table.machines()[0]}: {len(table):,} rows, {', '.join(table.shown())}")
    shared = [name for name in Table.read(paths[0]).shown() if name.startswith("spindle")]
    study = Study.open_or_init(
        given.out / "study", paths, protocol="mended", size="tiny", settings=SETTINGS, shared=shared
    )
    study.ready("leave-one-out", given.seeds)
    study.search(LocalEngine(given.jobs, "cpu"))
    show(machines_table(study.held_out()))
    for run in study.store.runs("finished"):
        print(run.name, run.outcome["bundle"]["invariance"])
    spent = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        f"{time.time() - began:.0f} s of the clock, {spent / 60:.1f} processor minutes of this process and its children"
    )


if __name__ == "__main__":
    main()
