"""Who is alive: a process at work on a study holds a lock file, which the system lets go of when the process dies."""

import os
import platform
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crossfeed.locks import is_locked, locked

FOLDER = "owners"


@contextmanager
def owner(folder: Path) -> Iterator[str]:
    """Be an owner for the length of the block; the name says which process on which machine."""
    name = f"{platform.node()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    with locked(_lock(folder, name)):
        yield name


def is_alive(folder: Path, name: str) -> bool:
    """Whether the owner still holds its lock."""
    return is_locked(_lock(folder, name))


def _lock(folder: Path, name: str) -> Path:
    return folder / FOLDER / f"{name}.lock"
