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
from crossfeed.jobs import InProcess
from crossfeed.logs.align import align
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Table
from crossfeed.schema import Schema
from crossfeed.sim.factory.generate import draw_table
from crossfeed.study.study import Study
from crossfeed.study.tables import machines_table

ROWS, SESSIONS = 2_500, 4
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
    "training.learning_rate": 0.003,
    "training.validation_windows": 128,
}


def fleet(machines: int, minutes: float) -> list[Table]:
    """The first machines of the fleet that are logged once a second in enough sessions, each as a table of its own."""
    found: list[Table] = []
    for number in count():
        (table,) = draw_table(0, [number], 2.0)
        if table.period == 1.0:
            (table,) = draw_table(0, [number], minutes)
            found += [table] if len(table.groups) >= SESSIONS else []
        if len(found) == machines:
            return found
    raise AssertionError


def real(mazak: Path, michigan: Path, minutes: float) -> list[Table]:
    """The Mazak, the Michigan mill and a simulated machine in rows of a second."""
    return [
        first_rows(ingest(log_format_named("mtconnect"), mazak, period=1.0)),
        first_rows(ingest(log_format_named("michigan"), michigan, period=1.0)),
        *fleet(1, minutes),
    ]


def first_rows(table: Table) -> Table:
    """Every n-th session, so that a long log does not outweigh the others."""
    step = max(1, round(len(table) / ROWS))
    return table.select(table.groups[::step])


def in_one_schema(tables: Sequence[Table]) -> list[Table]:
    """Every sensor that any of them shows, and every command; who lacks one leaves it empty, or standing still."""
    shown = [table.schema.channel(name) for table in tables for name in table.shown()]
    sensors = {channel.name: channel for channel in shown if channel.quantity != "unknown"}
    commands = {channel.name: channel for table in tables for channel in table.schema.commands}
    schema = Schema(name="common", sensors=tuple(sensors.values()), commands=tuple(commands.values()))
    return [align(table, schema) for table in tables]


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("out", type=Path)
    words.add_argument("--mazak", type=Path)
    words.add_argument("--michigan", type=Path)
    words.add_argument("--minutes", type=float, default=40.0, help="so long each of them works")
    words.add_argument("--epochs", type=int, default=3, help="of fine-tuning, 20 batches each")
    words.add_argument("--seeds", type=int, default=1)
    words.add_argument("--machines", type=int, default=8, help="so many of the fleet")
    given = words.parse_args()
    began, paths = time.time(), []
    simulated = not given.mazak
    tables = fleet(given.machines, given.minutes) if simulated else real(given.mazak, given.michigan, given.minutes)
    for table in in_one_schema(tables):
        paths.append(given.out / f"{table.machines()[0]}.parquet")
        table.write(paths[-1])
        print(f"{table.machines()[0]}: {len(table):,} rows, {', '.join(table.shown())}")
    shared = [name for name in Table.read(paths[0]).shown() if name.startswith("spindle")]
    study = Study.open_or_init(
        given.out / "study",
        paths,
        protocol="mended",
        size="tiny",
        settings=SETTINGS | {"training.finetune_epochs": given.epochs},
        shared=shared,
    )
    study.ready("leave-one-out", given.seeds)
    study.search(InProcess("cpu"))
    show(machines_table(study.held_out()))
    for run in study.store.runs("finished"):
        print(run.name, run.outcome["bundle"]["invariance"])
    spent = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        f"{time.time() - began:.0f} s of the clock, {spent / 60:.1f} processor minutes of this process and its children"
    )


if __name__ == "__main__":
    main()
