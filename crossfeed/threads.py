"""Work for all cores of a CPU in threads that never wait for each other, each with one core of its own.

Two cores inside one product of matrices meet after each of them; beside a busy process the slower one decides every
time. Threads that share nothing lose only what the other process takes.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import torch

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
