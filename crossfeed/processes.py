"""What child processes owe their parent."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from types import ModuleType
from typing import Any, TypeVar

Outcome = TypeVar("Outcome")
Argument = TypeVar("Argument")

CAN_MASK = hasattr(signal, "pthread_sigmask")  # not on Windows


@contextmanager
def starting_children() -> Iterator[None]:
    """Processes started in this block never hear Ctrl-C, and never run the script of the user a second time."""
    if CAN_MASK:  # Python's own helper for new interpreters ends every mask when it is started, so it comes first
        resource_tracker.ensure_running()
    # A new interpreter imports the parent's main module: a script without a guard would start everything again.
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        with _interrupts_wait():
            yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal: children inherit this mask, we hear later what came meanwhile."""
    if not CAN_MASK:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def side_by_side(
    function: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], jobs: int, prepare: Callable[..., None],
    arguments: tuple[Any, ...],
) -> Iterator[Outcome]:  # fmt: skip
    """Call the function with each task in one of several processes, which `prepare` makes ready once; as they end."""
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), prepare, arguments)
    try:
        with starting_children():
            waiting = [pool.submit(function, *task) for task in tasks]
        for future in as_completed(waiting):
            yield future.result()
    except BaseException:  # Ctrl-C: do not wait for what is under way
        for child in multiprocessing.active_children():
            child.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def beside(function: Callable[[Argument], Outcome], argument: Argument) -> Iterator[Callable[[], Outcome]]:
    """Call a function in a copy of this process while the block goes on; what is given waits for the outcome.

    A copy takes no time to start, but only a process with one thread can safely be copied: elsewhere, or without a
    second core, the call is made here when its outcome is asked for.
    """
    if not _can_be_copied():
        yield partial(function, argument)
        return
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork"), end_with_parent) as pool:
        with _interrupts_wait():
            begun = pool.submit(function, argument)

        def outcome() -> Outcome:
            try:
                return begun.result()
            except BrokenProcessPool:  # somebody ended the copy
                return function(argument)

        try:
            yield outcome
        finally:
            begun.cancel()


def _can_be_copied() -> bool:
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    return cores > 1 and threading.active_count() == 1 and "torch" not in sys.modules


def end_with_parent() -> None:
    """Stop when the process that started this one is gone, so that no orphan writes beside its successor."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "called in a process that multiprocessing did not start"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
