"""Where runs are executed: in child processes of this machine, or on a Ray cluster."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from crossfeed.errors import ConfigError, CrossfeedError
from crossfeed.study.worker import OUTCOME

ATTEMPTS = 3
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
        running: dict[str, _Child] = {}
        try:
            while True:
                while len(running) < self.jobs and (name := next_run()) is not None:
                    running[name] = self._start(folder, name)
                if not running:
                    return
                for name, child in list(running.items()):
                    if child.process.poll() is None:
                        continue
                    outcome = folder / "runs" / name / OUTCOME
                    if child.process.returncode == 0 and outcome.is_file():
                        del running[name]
                        yield name, json.loads(outcome.read_text(encoding="utf-8"))
                    elif child.attempts < ATTEMPTS and child.process.returncode != 2:
                        running[name] = self._start(folder, name, child.attempts + 1)
                    else:
                        raise CrossfeedError(
                            f"Run '{name}' ended with code {child.process.returncode} and without an outcome.",
                            remedy=f"Its last words are in {child.log}; mend the cause and search again.",
                        )
                time.sleep(0.05)
        finally:
            for child in running.values():
                child.process.kill()
                child.process.wait()

    def _start(self, folder: Path, name: str, attempts: int = 1) -> "_Child":
        log = folder / "logs" / f"{name}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        threads = str(self.threads)
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        command = [sys.executable, "-m", "crossfeed.study.worker", str(folder), name, self.device]
        with log.open("ab") as handle:
            return _Child(subprocess.Popen(command, stdout=handle, stderr=handle, env=environment), log, attempts)


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    log: Path
    attempts: int = field(default=1)


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Runs on any Ray cluster; the study folder must be on storage that every node sees."""

    address: str | None = None
    gpus_per_run: float = 0.0
    cpus_per_run: float = 1.0
    jobs: int = 8

    def execute(self, folder: Path, next_run: NextRun) -> Iterator[tuple[str, dict[str, Any]]]:
        try:
            import ray
        except ImportError as error:
            raise ConfigError(
                "The engine 'ray' needs the package ray.", remedy="Install it with: pip install 'crossfeed[ray]'"
            ) from error
        if not ray.is_initialized():
            ray.init(address=self.address, log_to_driver=False, configure_logging=False)
        remote = ray.remote(
            num_cpus=self.cpus_per_run,
            num_gpus=self.gpus_per_run,
            max_retries=ATTEMPTS - 1,
            retry_exceptions=False,
        )(_execute_on_worker)
        waiting: dict[Any, str] = {}
        while True:
            while len(waiting) < self.jobs and (name := next_run()) is not None:
                waiting[remote.remote(str(folder.resolve()), name)] = name
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


def _execute_on_worker(folder: str, name: str) -> dict[str, Any]:
    from crossfeed.study.worker import execute

    return execute(Path(folder), name)
