"""Where runs are executed: in child processes of this machine, or on a Ray cluster."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from crossfeed.atomic import storage_error
from crossfeed.errors import ConfigError, CrossfeedError
from crossfeed.extras import need
from crossfeed.processes import starting_children
from crossfeed.study.record.identity import code_hash
from crossfeed.study.record.outcomes import OUTCOME
from crossfeed.study.worker import REFUSED, execute_logged

if TYPE_CHECKING:  # the first of them does not exist on Windows
    from multiprocessing.context import ForkServerContext, SpawnContext

ATTEMPTS = 3
POLL_SECONDS = 0.2  # how often the list is asked for another run while processes are at work
# What a run needs. Imported, never called: a process that has started threads or a GPU must not fork.
PRELOADED = ("crossfeed.evaluation.bundle", "crossfeed.training.run", "pyarrow.parquet")
NextRun = Callable[[], str | None]


class Engine(Protocol):
    """Takes run names from `next_run` until there are none, and yields each with its outcome as it comes in."""

    def execute(self, folder: Path, next_run: NextRun) -> Iterator[tuple[str, dict[str, Any]]]: ...


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """A process per run, `jobs` at a time; a process that dies is started again where it stopped.

    Every run has the same number of `threads`, whatever `jobs` is: more of them would sum in another order.
    """

    jobs: int = 1
    device: str = "auto"
    threads: int = 1

    def execute(self, folder: Path, next_run: NextRun) -> Iterator[tuple[str, dict[str, Any]]]:
        busy: list[_Attempt] = []
        try:
            while True:
                while len(busy) < self.jobs and (name := next_run()) is not None:
                    busy.append(self._begin(folder, name))
                if not busy:
                    return
                wait([attempt.process.sentinel for attempt in busy], timeout=POLL_SECONDS)
                for attempt in [attempt for attempt in busy if not attempt.process.is_alive()]:
                    busy.remove(attempt)
                    code, outcome = attempt.process.exitcode, folder / "runs" / attempt.run / OUTCOME
                    if code == 0 and outcome.is_file():
                        yield attempt.run, json.loads(outcome.read_text(encoding="utf-8"))
                    elif attempt.number < ATTEMPTS and code != REFUSED:
                        busy.append(self._begin(folder, attempt.run, attempt.number + 1))
                    else:
                        raise CrossfeedError(
                            f"Run '{attempt.run}' ended with code {code} and without an outcome: "
                            f"{_end_of_log(folder, attempt.run)}",
                            remedy=f"Mend the cause and search again; its log is {_log(folder, attempt.run)}.",
                        )
        finally:
            for attempt in busy:
                attempt.process.kill()
                attempt.process.join()

    def _begin(self, folder: Path, name: str, number: int = 1) -> "_Attempt":
        context, log = _context(), _log(folder, name)
        arguments = (folder, name, self.device, self.threads, log, code_hash())
        process = context.Process(target=execute_logged, args=arguments)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with starting_children(), _environment(self.threads):
                process.start()
        except OSError as error:
            raise storage_error("Starting a run with the log", log, error) from error
        return _Attempt(process, name, number)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A process at work on a run, for the n-th time."""

    process: BaseProcess
    run: str
    number: int


def _context() -> "ForkServerContext | SpawnContext":
    """How runs are started: by a server that has everything imported and forks, where forking with torch is safe."""
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """Libraries ask the environment for their number of threads once, when they are imported.

    The server that forks imports our package before it knows the search's path: it must not take one that happens to
    lie in the folder the search was started in.
    """
    wanted = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "PYTHONSAFEPATH": "1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _log(folder: Path, name: str) -> Path:
    return folder / "logs" / f"{name}.txt"


def _end_of_log(folder: Path, name: str) -> str:
    lines = _log(folder, name).read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-3:]) or "it said nothing."


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Runs on any Ray cluster; the study folder must be on storage that every node sees."""

    address: str | None = None
    gpus_per_run: float = 0.0
    jobs: int = 8

    def execute(self, folder: Path, next_run: NextRun) -> Iterator[tuple[str, dict[str, Any]]]:
        ray = need("ray", "The engine 'ray'", "ray")
        if not ray.is_initialized():
            ray.init(address=self.address, log_to_driver=False, configure_logging=False)
        remote = ray.remote(
            num_cpus=1,
            num_gpus=self.gpus_per_run,
            max_retries=ATTEMPTS - 1,
            retry_exceptions=False,
        )(_execute_on_worker)
        waiting: dict[Any, str] = {}
        while True:
            while len(waiting) < self.jobs and (name := next_run()) is not None:
                waiting[remote.remote(str(folder.resolve()), name, code_hash())] = name
            if not waiting:
                return
            finished, _ = ray.wait(list(waiting), num_returns=1)
            name = waiting.pop(finished[0])
            try:
                yield name, ray.get(finished[0])
            except ray.exceptions.RayError as error:
                raise CrossfeedError(f"Run '{name}' failed on the cluster: {error}") from error


def make_engine(name: str, jobs: int, address: str | None = None, gpus_per_run: float = 0.0) -> Engine:
    """An engine by its name on the command line."""
    if name == "local":
        return LocalEngine(jobs)
    if name == "ray":
        return RayEngine(address, gpus_per_run, jobs=jobs)
    raise ConfigError(f"There is no engine '{name}'.", expected="local or ray")


def _execute_on_worker(folder: str, name: str, code: str) -> dict[str, Any]:
    import torch

    from crossfeed.study.worker import check_code, execute

    torch.set_num_threads(1)
    check_code(code)
    return execute(Path(folder), name)
