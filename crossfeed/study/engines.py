"""Where runs are executed: in child processes of this machine, or on a Ray cluster."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from crossfeed.atomic import storage_error
from crossfeed.errors import ConfigError, CrossfeedError
from crossfeed.study.worker import OUTCOME

ATTEMPTS = 3
# The exit code of a run that cannot succeed by trying again.
REFUSED = 2
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
        idle: list[_Template] = []
        busy: list[_Template] = []
        try:
            while True:
                while len(busy) < self.jobs and (name := next_run()) is not None:
                    busy.append((idle.pop() if idle else self._template(folder, name)).begin(name))
                if not busy:
                    return
                for template in list(busy):
                    code, name = template.ended(), template.run
                    if code is None:
                        continue
                    busy.remove(template)
                    outcome = folder / "runs" / name / OUTCOME
                    if code == 0 and outcome.is_file():
                        if template.process.poll() is None:
                            idle.append(template)
                        yield name, json.loads(outcome.read_text(encoding="utf-8"))
                        continue
                    template.stop()
                    if template.attempts == ATTEMPTS or code == REFUSED:
                        raise CrossfeedError(
                            f"Run '{name}' ended with code {code} and without an outcome: {_last_words(folder, name)}",
                            remedy=f"Mend the cause and search again; its log is {_log(folder, name)}.",
                        )
                    busy.append(self._template(folder, name).begin(name, template.attempts + 1))
                time.sleep(0.02)
        finally:
            for template in [*idle, *busy]:
                template.stop()

    def _template(self, folder: Path, name: str) -> "_Template":
        threads, log = str(self.threads), _log(folder, name)
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        command = [sys.executable, "-m", "crossfeed.study.template", str(folder), self.device, str(os.getpid())]
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as handle:
                pipe = subprocess.PIPE
                return _Template(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=handle, env=environment))
        except OSError as error:
            raise storage_error("Starting a run with the log", log, error) from error


@dataclass(slots=True)
class _Template:
    """A process that forks runs, one at a time; used again as long as it lives."""

    process: "subprocess.Popen[bytes]"
    run: str = ""
    attempts: int = 1

    def begin(self, run: str, attempts: int = 1) -> "_Template":
        self.run, self.attempts = run, attempts
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it died: `ended` will see it
            self.process.stdin.write(f"{run}\n".encode())
            self.process.stdin.flush()
        return self

    def ended(self) -> int | None:
        """The exit code of the run, or of the template if that is what ended; nothing while it works."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], 0)[0]:
            return None
        answer = self.process.stdout.readline()
        return int(answer) if answer else self.process.wait()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


def _log(folder: Path, name: str) -> Path:
    return folder / "logs" / f"{name}.txt"


def _last_words(folder: Path, name: str) -> str:
    lines = _log(folder, name).read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-3:]) or "it said nothing."


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
    import torch

    from crossfeed.study.worker import execute

    torch.set_num_threads(1)
    return execute(Path(folder), name)
