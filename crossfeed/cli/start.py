"""A quick start for commands that ask one thing and end."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# What glibc calls the two limits: from where on arrays get pages of their own, and freed ones go back to the system.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1


@contextmanager
def quick_start() -> Iterator[None]:
    """Imports inside it are not interrupted: what is imported stays, so nobody needs to look through it for garbage."""
    _keep_freed_memory()
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()


def _keep_freed_memory() -> None:
    """Let one batch use the memory of the one before: fetched anew, page by page, it takes a tenth of an evaluation."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # another system, or another C library
        return
    mallopt(_MMAP_THRESHOLD, 1 << 30)
    mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
