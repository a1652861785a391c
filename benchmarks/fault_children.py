"""Work in forked children: how it ended, what it gave, and a folder for each."""

import json
import os
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossfeed.errors import CrossfeedError
from crossfeed.progress import be_quiet

TIDY, SPOKEN, TRACEBACK = 0, 3, 4


@dataclass
class Tally:
    """What happened in one kind of trial."""

    tries: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    worst: float = 0.0

    def count(self, code: int) -> None:
        """One more try that ended with this code."""
        self.tries += 1
        self.counts[{TIDY: "done", SPOKEN: "said in words"}.get(code, "traceback")] += 1

    def row(self, *names: str) -> str:
        """The cells of a table."""
        seconds = f"{self.worst:.1f} s"
        cells = (seconds if name == "longest repeat" else str(self.counts[name]) for name in names)
        return " | ".join([str(self.tries), *cells])


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


def place_for(folder: Path, name: str) -> Path:
    """A folder for one try, empty; what was done undisturbed stays."""
    place = folder / name
    if not name.startswith("calm"):
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    return place
