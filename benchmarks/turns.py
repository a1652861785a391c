"""Processes that build side by side and then measure one after another; results go to a file line by line."""

import fcntl
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RESULTS = "results"


@contextmanager
def own_turn(folder: Path, name: str, everyone: int, patience: float) -> Iterator[None]:
    """Say that this process is ready, wait until all are (or patience ends), and have the device alone."""
    began = time.monotonic()
    (folder / f"{name}.ready").touch()
    while len(list(folder.glob("*.ready"))) < everyone and time.monotonic() - began < patience:
        time.sleep(0.1)
    with (folder / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def note(folder: Path, facts: dict[str, Any]) -> None:
    """Keep one line of results."""
    with (folder / RESULTS).open("a") as results:
        results.write(json.dumps(facts) + "\n")


def run_together(names: Sequence[str], out: Path | None, head: dict[str, Any]) -> list[dict[str, Any]]:
    """Start this script once for each name with `--worker NAME FOLDER`; what is known is kept in `out` all the time."""
    with tempfile.TemporaryDirectory() as name:
        folder, lines = Path(name), list[str]()
        command = [sys.executable, *sys.argv, "--worker"]
        processes = [subprocess.Popen([*command, own, name]) for own in names]
        while True:
            running = any(process.poll() is None for process in processes)
            if (folder / RESULTS).exists():
                lines = (folder / RESULTS).read_text().splitlines()
            if out:
                out.write_text("\n".join([json.dumps(head), *lines]) + "\n")
            if not running:
                return [json.loads(line) for line in lines]
            time.sleep(0.5)
