"""One process to a run: a lock in its folder, which the system lets go of when the process dies."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crossfeed.errors import TrainingError
from crossfeed.locks import HeldElsewhereError, locked

LOCK = ".lock"
HOLDER = ".lock-holder"


@contextmanager
def sole_process(folder: Path) -> Iterator[None]:
    """Be the only process that works in a folder for the length of the block, or say which one does."""
    if folder.exists() and not folder.is_dir():
        yield  # whoever opens the folder will say so
        return
    holder = folder / HOLDER
    try:
        with locked(folder / LOCK, wait=False):
            with suppress(OSError):  # a full disk: the lock holds without a name beside it
                holder.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
            try:
                yield
            finally:
                holder.unlink(missing_ok=True)
    except HeldElsewhereError:
        name = holder.read_text(encoding="utf-8") if holder.exists() else "another process"
        raise TrainingError(
            f"A run is under way in {folder}, by {name}.",
            expected="one process to a run",
            remedy="Wait for it, stop it, or choose another folder.",
        ) from None
