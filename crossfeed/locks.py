"""Lock files that the system lets go of when the process that holds them dies."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from crossfeed.atomic import storage_error


class HeldElsewhereError(Exception):
    """Another process holds the lock and nobody wanted to wait."""


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock file for the length of the block and remove it afterwards."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        raise HeldElsewhereError(str(path)) from None
    except OSError as error:
        raise storage_error("Making the lock file", path, error) from error
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no file that is open
            path.unlink(missing_ok=True)
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock file now."""
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False
