"""How many files a row, a what-if question and a live value walk through, counted by a trace of the functions called.

    python benchmarks/walks.py            # writes the counts and the files, room by room

One process does each walk for real with tiny settings; a file counts when one of its functions is called while the
walk lasts. What only runs at import does not count.
"""

import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import crossfeed
from crossfeed.logs.table import Table

ROOT = Path(crossfeed.__file__).parent
LONGEST_S = 60.0
GOALS = {"a row, from log to report": 45, "a what-if request": 30, "a live value": 20}


@contextmanager
def traced() -> Iterator[set[str]]:
    """The files of the package whose functions are called inside the block."""
    prefix, files = str(ROOT) + "/", set[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix) and not _at_import(frame, prefix):
            files.add(code.co_filename.removeprefix(prefix))

    sys.setprofile(note)
    threading.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def _at_import(frame: FrameType | None, prefix: str) -> bool:
    """Whether a call belongs to a module's own lines, or to what those call while it is imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(prefix):
            return True
        frame = frame.f_back
    return False


def commands(*lines: str) -> None:
    """Run commands of the command line in this process."""
    from typer.testing import CliRunner

    from crossfeed.cli import app

    for line in lines:
        done = CliRunner().invoke(app, line.split(), catch_exceptions=False)
        if done.exit_code not in (0, 1):
            raise SystemExit(f"crossfeed {line}\n{done.output}")


def row(folder: Path) -> set[str]:
    """A line of a log becomes a number on a page."""
    commands(f"simulate {folder / 'logs'} --fleet 1")
    mapping = next((folder / "logs").rglob("*.yaml"))
    log = mapping.parent / "log.csv"
    table, run = folder / "a.parquet", folder / "run"
    settings = " ".join(
        f"--set {each}" for each in ("training.finetune_epochs=1", "model.members=1", "model.width=16", "model.heads=2")
    )
    with traced() as files:
        commands(
            f"ingest table {log} {table} --mapping {mapping}",
            f"train --table {table} --out {run} --size tiny --pretrained none {settings}",
            f"evaluate {run} --table {table} --out {folder / 'results'}",
            f"report {run}",
        )
    return files


def what_if(folder: Path) -> set[str]:
    """Two plans of a table are compared."""
    table, plan = folder / "a.parquet", folder / "slower.csv"
    rows = Table.read(table)
    ahead = rows.commands[60:68] * [0.8 if name.startswith("feed") else 1.0 for name in rows.schema.command_names]
    lines = [[*rows.schema.command_names], *ahead.tolist()]
    plan.write_text("".join(",".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    with traced() as files:
        commands(f"what-if {folder / 'run'} --history {table} --commands table --compare {plan} --at 60 --seconds 8")
    return files


def live_value(folder: Path) -> set[str]:
    """A machine writes one more row into a log that is watched; the walk ends when its forecast is there."""
    from crossfeed.evaluation.opened_model import open_model
    from crossfeed.live.monitor import Monitor
    from crossfeed.live.open_source import SourceOptions, open_source

    mapping = next((folder / "logs").rglob("*.yaml"))
    lines = (mapping.parent / "log.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    opened, log = open_model(folder / "run"), folder / "growing.csv"
    # Several lines make a row of a second: as many as the model reads, and some more.
    seconds = [float(line.partition(",")[0]) for line in lines[1:]]
    known = next(number for number, second in enumerate(seconds) if second > opened.model.config.context + 4.0)
    more = next(number for number, second in enumerate(seconds) if second > seconds[known] + 2.0)
    log.write_text("".join(lines[:known]), encoding="utf-8")

    async def watch() -> None:
        monitor = Monitor(opened, open_source(f"file:{log}", SourceOptions(mapping=mapping)))
        running = asyncio.create_task(monitor.run())
        try:
            async with asyncio.timeout(LONGEST_S):
                async for seen in monitor.updates():
                    if seen.forecast:
                        break
                newest = seen.recent.times[-1]
                files.clear()
                with log.open("a", encoding="utf-8") as file:
                    file.write("".join(lines[known:more]))
                async for seen in monitor.updates():
                    if seen.recent.times[-1] > newest and seen.forecast:
                        break
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    # From the start, for the sake of the threads: only those are traced that begin while the trace is on.
    with traced() as files:
        asyncio.run(watch())
    return files


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for (walk, goal), work in zip(GOALS.items(), (row, what_if, live_value), strict=True):
            files = work(Path(name))
            rooms = Counter(file.split("/")[0] for file in files)
            print(f"\n{walk}: {len(files)} files (goal {goal})")
            for room, count in rooms.most_common():
                own = sorted(file for file in files if file.split("/")[0] == room)
                print(f"  {room} {count}: {', '.join(file.removeprefix(room + '/') for file in own)}")


if __name__ == "__main__":
    main()
