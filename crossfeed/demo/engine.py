"""Runs of the demo's study in processes that stay, so that the libraries are loaded once and not for every run."""

import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossfeed.study.engines import NextRun


@dataclass(frozen=True, slots=True)
class PoolEngine:
    """`jobs` processes, one thread each, that take run after run."""

    jobs: int = 2

    def execute(self, folder: Path, next_run: NextRun) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each run with its outcome as it comes in; processes end with this one, whatever ends it."""
        waiting: dict[Future[dict[str, Any]], str] = {}
        pool = ProcessPoolExecutor(self.jobs, multiprocessing.get_context("spawn"), initializer=_begin)
        try:
            while True:
                while len(waiting) < self.jobs and (name := next_run()) is not None:
                    waiting[pool.submit(_execute, folder, name)] = name
                if not waiting:
                    return
                finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield waiting.pop(future), future.result()
        finally:
            for process in (pool._processes or {}).values():
                process.kill()
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """One thread, so that numbers do not depend on the machine; Ctrl-C is the parent's business."""
    import torch

    from crossfeed.processes import end_with_parent
    from crossfeed.progress import be_quiet

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    be_quiet()
    torch.set_num_threads(1)
    end_with_parent()


def _execute(folder: Path, name: str) -> dict[str, Any]:
    from crossfeed.study.worker import execute

    return execute(folder, name, device="cpu")
