"""Children that hear no Ctrl-C and end with their parent, threads with a core each, products by the widest units.

Torch is imported where it is used: most commands need none.
"""

import multiprocessing
import os
import platform
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import resource_tracker
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

Result = TypeVar("Result")
CAN_MASK = hasattr(signal, "pthread_sigmask")  # not on Windows
_OWN = "CROSSFEED_COMMAND"
_EXACT = 1e-5  # relative error of a product in float32; with halved precision it is a thousand times larger
_lock = threading.Lock()
_users, _before = 0, ("highest", True)


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


def end_with_parent() -> None:
    """Stop when the process that started this one is gone, so that no orphan writes beside its successor."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "called in a process that multiprocessing did not start"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def cores(device: "torch.device") -> int:
    """How many pieces of work a device can do at a time: as many as torch may use threads; a GPU does one."""
    import torch

    return torch.get_num_threads() if device.type == "cpu" else 1


def in_threads(work: Iterable[Callable[[], Result]], threads: int) -> Iterator[Result]:
    """The results in the order of the work; the first error ends what has not begun and is raised.

    No more is begun than the threads do next, so that results which nobody has taken yet do not pile up.
    """
    if threads < 2:
        yield from (each() for each in work)
        return
    import torch

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


@contextmanager
def wide_products() -> Iterator[None]:
    """Inside it, and in threads begun inside it, products use the widest units; as a decorator, while a function runs.

    Torch's setting is one for the process, so whoever leaves last puts it back.
    """
    global _users, _before
    if not in_own_command() or not gains():
        yield
        return
    import torch
    from torch.backends import cuda

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
    import torch
    from torch.backends import cuda

    torch.set_float32_matmul_precision(precision)
    cuda.enable_flash_sdp(attention_in_one_piece)


@cache
def gains() -> bool:
    """Whether oneDNN is the quicker one here and as exact; it must not depend on how busy the machine is.

    Where there is a GPU the setting would change its products too.
    """
    import torch
    from torch.backends import mkldnn

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
    import torch

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
