"""Who is alive: a process at work on a study holds a lock file, which the system lets go of when the process dies."""

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crossfeed.atomic import storage_error


@contextmanager
def owner(folder: Path) -> Iterator[str]:
    """Be an owner for the length of the block; the name says which process on which machine."""
    name = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    with locked(folder / "owners" / f"{name}.lock"):
        yield name
    (folder / "owners" / f"{name}.lock").unlink(missing_ok=True)


def is_alive(folder: Path, name: str) -> bool:
    """Whether the owner still holds its lock."""
    path = folder / "owners" / f"{name}.lock"
    if not path.exists():
        return False
    with path.open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, waiting for whoever holds it now."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("ab")
    except OSError as error:
        raise storage_error("Making the lock file", path, error) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
