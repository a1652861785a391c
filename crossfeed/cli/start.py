"""A quick start and a quick end for commands that ask one thing."""

import atexit
import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from crossfeed.processes import in_own_command

# What glibc calls the two limits: from where on arrays get pages of their own, and freed ones go back to the system.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1


@contextmanager
def quick_start() -> Iterator[None]:
    """Imports inside it are not interrupted: what is imported stays, so nobody needs to look through it for garbage."""
    if in_own_command():
        _keep_freed_memory()
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()


@contextmanager
def quick_end() -> Iterator[None]:
    """The exit code of the block is that of the process, which nobody takes apart: with torch that takes 0.15 s."""
    codes: list[int] = []
    # What is registered first is called last, when threads and children have ended and files are closed.
    atexit.register(_leave, codes)
    try:
        yield
    except SystemExit as end:
        if isinstance(end.code, int):
            codes.append(end.code)
        raise


def _leave(codes: list[int]) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody listens any more, which Python's own end turns into an exit code
        return
    for code in codes:
        os._exit(code)


def _keep_freed_memory() -> None:
    """Let one batch use the memory of the one before: fetched anew, page by page, it takes a tenth of an evaluation."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # another system, or another C library
        return
    mallopt(_MMAP_THRESHOLD, 1 << 30)
    mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
