"""Work for all cores of a CPU in threads that never wait for each other, each with one core of its own.

Two cores inside one product of matrices meet after each of them; beside a busy process the slower one decides every
time. Threads that share nothing lose only what the other process takes.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial

import torch


def side_by_side(work: Sequence[Callable[[], None]], cores: int) -> None:
    """Do all of it; the first error ends what has not begun and is raised."""
    if min(cores, len(work)) < 2:
        for each in work:
            each()
        return
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(min(cores, len(work)), initializer=partial(torch.set_num_threads, 1)) as pool:
            begun = [pool.submit(each) for each in work]
            try:
                wait(begun, return_when=FIRST_EXCEPTION)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        for done in begun:
            if not done.cancelled():
                done.result()
    finally:
        torch.set_num_threads(before)
