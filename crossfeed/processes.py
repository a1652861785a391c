"""What child processes owe their parent."""

import multiprocessing
import os
import platform
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import resource_tracker
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch.backends import cuda, mkldnn

Outcome = TypeVar("Outcome")
Argument = TypeVar("Argument")

_NUMBER = 2  # bytes; a pipe holds some ten thousand numbers
_inherited: Callable[[], Any]  # in a child: what it was made for
CAN_MASK = hasattr(signal, "pthread_sigmask")  # not on Windows
_OWN = "CROSSFEED_COMMAND"


def begin_own_command() -> None:
    """This process, and those that it starts, are ours: settings that hold for a whole process may be changed."""
    os.environ[_OWN] = "1"


def in_own_command() -> bool:
    """Whether one of our commands began this process; elsewhere it belongs to whoever imported the library."""
    return _OWN in os.environ


@contextmanager
def as_own_command(whether: bool) -> Iterator[None]:
    """In this block the process counts as one of our commands, or as somebody else's: as the one that is repeated."""
    before = os.environ.pop(_OWN, None)
    if whether:
        begin_own_command()
    try:
        yield
    finally:
        os.environ.pop(_OWN, None)
        if before is not None:
            os.environ[_OWN] = before


@contextmanager
def starting_children() -> Iterator[None]:
    """Processes started in this block never hear Ctrl-C; those of our own commands do not read the command again."""
    if CAN_MASK:  # Python's own helper for new interpreters ends every mask when it is started, so it comes first
        resource_tracker.ensure_running()
    main = sys.modules["__main__"]
    if in_own_command():  # a new interpreter would import the whole command line for nothing
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


@contextmanager
def in_forked_process(function: Callable[[Argument], Outcome], argument: Argument) -> Iterator[Callable[[], Outcome]]:
    """Call a function in a copy of this process while the block goes on; what is given waits for the outcome.

    A copy takes no time to start, but only a process with one thread can safely be copied: elsewhere, or without a
    second core, the call is made here when its outcome is asked for.
    """
    work = partial(function, argument)
    if not _can_be_copied():
        yield work
        return
    # What is handed over when the copy is made need not be written down and read, so it can be anything.
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork"), _make_ready, (work,)) as pool:
        with _interrupts_wait():
            begun: Future[Outcome] = pool.submit(_do_inherited)

        def outcome() -> Outcome:
            try:
                return begun.result()
            except BrokenProcessPool:  # somebody ended the copy
                return work()

        try:
            yield outcome
        finally:
            begun.cancel()


def _make_ready(function: Callable[[], Any]) -> None:
    """What a child does first: keep what it was made for."""
    global _inherited
    end_with_parent()
    _inherited = function


def _do_inherited() -> Any:
    return _inherited()


@contextmanager
def each_taken_once(work: Sequence[Argument]) -> Iterator[Iterator[tuple[int, Argument]]]:
    """Numbered pieces of work that this process and copies of it take one by one, in order, whoever is free.

    Their numbers wait in a pipe, from which the system gives each to one reader: no lock can be lost with a process.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as numbers:
        with os.fdopen(writing, "wb") as waiting:
            for number in range(len(work)):
                waiting.write(number.to_bytes(_NUMBER, "little"))
        taken = (int.from_bytes(number, "little") for number in iter(partial(numbers.read, _NUMBER), b""))
        yield ((number, work[number]) for number in taken)


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


# Work for all cores of a CPU in threads that never wait for each other, each with one core of its own.


Result = TypeVar("Result")


def cores(device: torch.device) -> int:
    """How many pieces of work a device can do at a time: as many as torch may use threads; a GPU does one."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def in_threads(work: Iterable[Callable[[], Result]], threads: int) -> Iterator[Result]:
    """The results in the order of the work; the first error ends what has not begun and is raised.

    No more is begun than the threads do next, so that results which nobody has taken yet do not pile up.
    """
    if threads < 2:
        yield from (each() for each in work)
        return
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=partial(torch.set_num_threads, 1)) as pool:
            begun: deque[Future[Result]] = deque()
            try:
                for each in work:
                    begun.append(pool.submit(each))
                    if len(begun) > 2 * threads:
                        yield begun.popleft().result()
                while begun:
                    yield begun.popleft().result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        torch.set_num_threads(before)


# Products of float32 matrices on a CPU, by the library that uses the widest instructions it has.


_EXACT = 1e-5  # relative error of a product in float32; with halved precision it is a thousand times larger
_lock = threading.Lock()
_users, _before = 0, ("highest", True)


@contextmanager
def wide_products() -> Iterator[None]:
    """Inside it, and in threads begun inside it, products use the widest units; as a decorator, while a function runs.

    Torch's setting is one for the process, so whoever leaves last puts it back.
    """
    global _users, _before
    if not in_own_command() or not gains():
        yield
        return
    with _lock:
        if not _users:
            _before = torch.get_float32_matmul_precision(), cuda.flash_sdp_enabled()  # type: ignore[no-untyped-call]
            # Attention in one piece would set up each of its many small products anew and take ten times as long.
            _set("medium", False)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _set(*_before)


def _set(precision: str, attention_in_one_piece: bool) -> None:
    torch.set_float32_matmul_precision(precision)
    cuda.enable_flash_sdp(attention_in_one_piece)


@cache
def gains() -> bool:
    """Whether oneDNN is the quicker one here and as exact; it must not depend on how busy the machine is.

    Where there is a GPU the setting would change its products too.
    """
    if torch.cuda.is_available() or not mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or "AuthenticAMD" not in _processor():
        return False
    return _exact()


def _processor() -> str:
    """How the processor calls itself."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")[:4096]
    except OSError:
        return platform.processor()


def _exact() -> bool:
    """Whether a product keeps float32 when reduced precision is permitted."""
    random = torch.Generator().manual_seed(0)
    one, two = (torch.randn(128, 256, generator=random) for _ in range(2))
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # somebody has set precisions library by library, which the simple setting may not mix with
        return False
    torch.set_float32_matmul_precision("medium")
    try:
        said = torch.stack([one @ two.T, torch.bmm(one.unsqueeze(0), two.T.unsqueeze(0))[0]]).double()
    finally:
        torch.set_float32_matmul_precision(before)
    truth = one.double() @ two.double().T
    return bool((said - truth).abs().max() < _EXACT * truth.abs().max())
