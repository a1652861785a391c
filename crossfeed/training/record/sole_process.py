"""One process to a run: a lock in its folder, which the system lets go of when the process dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from crossfeed.atomic import storage_error
from crossfeed.errors import TrainingError

LOCK = ".lock"


@contextmanager
def sole_process(folder: Path) -> Iterator[None]:
    """Be the only process that works in a folder for the length of the block, or say which one does."""
    if folder.exists() and not folder.is_dir():
        yield  # whoever opens the folder will say so
        return
    path = folder / LOCK
    handle = _take(path)
    try:
        with suppress(OSError):  # a full disk: the lock holds without a name in it
            handle.truncate(0)
            handle.write(f"process {os.getpid()} on {os.uname().nodename}".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        handle.close()


def _take(path: Path) -> FileIO:
    """The locked file; one that was removed between opening and locking does not count."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = path.open("a+b", buffering=0)
        except OSError as error:
            raise storage_error("Making the lock file", path, error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read().decode(errors="replace") or "another process"
            handle.close()
            raise TrainingError(
                f"A run is under way in {path.parent}, by {holder}.",
                expected="one process to a run",
                remedy="Wait for it, stop it, or choose another folder.",
            ) from None
        if path.exists() and os.path.samestat(os.fstat(handle.fileno()), path.stat()):
            return handle
        handle.close()
