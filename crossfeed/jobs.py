"""Jobs and the engines that run them: here, in processes of this machine, or on a Ray cluster.

A job's outcome appears whole, under a lock, and is never made twice (`once`); a job that dies is begun again.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from crossfeed.errors import ConfigError, CrossfeedError, need
from crossfeed.files import read_sealed, storage_error, write_sealed
from crossfeed.progress import be_quiet, console, is_quiet, progress

if TYPE_CHECKING:  # the first of them does not exist on Windows
    from multiprocessing.context import ForkServerContext, SpawnContext

ATTEMPTS = 3
REFUSED = 2  # the exit code of a job that cannot succeed by trying again
POLL_SECONDS = 0.2  # how often another job is asked for while processes are at work
# What jobs need. Imported, never called: a process that has started threads or a GPU must not fork.
PRELOADED = ("crossfeed.evaluation.bundle", "crossfeed.training.run", "pyarrow.parquet")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A name, the call that makes its outcome, the log of its process, and about how long it takes."""

    name: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    log: Path
    effort: float = 1.0


NextJob = Callable[[], JobSpec | None]
Prepare = Callable[[], Any] | None


def once(path: Path, make: Callable[[], dict[str, Any]], lock: Path | None = None) -> dict[str, Any]:
    """The outcome in this file, made now where it is not there; of several processes one makes it, the others wait."""
    from crossfeed.files import locked  # drawing a fleet needs no lock

    with locked(lock or path.with_suffix(".lock")):
        if path.is_file():
            return read_sealed(path, remedy="Delete the file; the run is then done again.")
        outcome = make()
        write_sealed(path, outcome)
    return outcome


class Engine(Protocol):
    """Takes jobs until there are none, and yields each with its outcome; calls begin with what `prepare` gives."""

    @property
    def device(self) -> str: ...

    def run(self, next_job: NextJob, prepare: Prepare = None) -> Iterator[tuple[JobSpec, Any]]: ...


@dataclass(frozen=True, slots=True)
class InProcess:
    """One job after the other in this very process."""

    device: str = "auto"

    def run(self, next_job: NextJob, prepare: Prepare = None) -> Iterator[tuple[JobSpec, Any]]:
        shared = () if prepare is None else (prepare(),)
        while (job := next_job()) is not None:
            yield job, job.call(*shared, *job.arguments)


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """So many processes side by side, each of which prepares once; a job whose process dies is begun again.

    Every process has the same number of `threads`, whatever `jobs` is: more of them would sum in another order.
    """

    jobs: int = 1
    device: str = "auto"
    threads: int = 1

    def run(self, next_job: NextJob, prepare: Prepare = None) -> Iterator[tuple[JobSpec, Any]]:
        idle: list[_Worker] = []
        busy: dict[Connection, tuple[_Worker, JobSpec, int]] = {}

        def hand_out(job: JobSpec, attempt: int) -> None:
            worker = idle.pop() if idle else self._worker(prepare, job.log)
            busy[worker.connection] = worker, job, attempt
            with suppress(BrokenPipeError):  # one that ended while it was idle counts as a job that died
                worker.connection.send(job)

        try:
            while True:
                while len(busy) < self.jobs and (job := next_job()) is not None:
                    hand_out(job, 1)
                if not busy:
                    return
                for ready in wait(list(busy), timeout=POLL_SECONDS):
                    worker, job, attempt = busy.pop(ready)  # type: ignore[call-overload]
                    try:
                        outcome = worker.connection.recv()
                    except (EOFError, ConnectionResetError):
                        worker.process.join()
                        if attempt == ATTEMPTS or worker.process.exitcode == REFUSED:
                            raise _without_outcome(job, worker.process.exitcode) from None
                        hand_out(job, attempt + 1)
                        continue
                    idle.append(worker)
                    yield job, outcome
        finally:
            for worker in idle:
                worker.connection.close()
            for worker, _, _ in busy.values():
                worker.process.kill()
            for worker in [*idle, *(worker for worker, _, _ in busy.values())]:
                worker.process.join()

    def _worker(self, prepare: Prepare, log: Path) -> "_Worker":
        from crossfeed.processes import starting_children  # imports torch, without which results are read

        here, there = Pipe()
        process = _context().Process(target=_work, args=(there, self.threads, prepare))
        try:
            with starting_children(), _environment(self.threads):
                process.start()
        except OSError as error:
            raise storage_error("Starting a process with the log", log, error) from error
        there.close()  # so that the end of the process is the end of the connection
        return _Worker(process, here)


@dataclass(frozen=True, slots=True)
class _Worker:
    """A process that does jobs, and the line to it."""

    process: BaseProcess
    connection: Connection


def _work(connection: Connection, threads: int, prepare: Prepare) -> None:
    """A process that does the jobs it is sent: its words go to the job's log, its exit code says how it ended."""
    from crossfeed.processes import end_with_parent

    end_with_parent()
    with suppress(ImportError):  # a fleet is drawn without torch
        import torch

        torch.set_num_threads(threads)
    shared: tuple[Any, ...] | None = None
    while True:
        try:
            job: JobSpec = connection.recv()
        except EOFError:
            return
        try:
            _write_words_to(job.log)
            if shared is None:
                shared = () if prepare is None else (prepare(),)
            outcome = job.call(*shared, *job.arguments)
        except CrossfeedError as error:
            print(error, file=sys.stderr)
            sys.exit(REFUSED)
        connection.send(outcome)


def _write_words_to(log: Path) -> None:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        raise storage_error("Writing the log", log, error) from error
    os.dup2(words, 1)
    os.dup2(words, 2)
    os.close(words)


def _without_outcome(job: JobSpec, code: int | None) -> CrossfeedError:
    said = job.log.read_text(encoding="utf-8", errors="replace").splitlines() if job.log.is_file() else []
    told = "\n".join(said[-3:]) or "it said nothing."
    return CrossfeedError(
        f"Run '{job.name}' ended with code {code} and without an outcome: {told}",
        remedy=f"Mend the cause and give the same command again; its log is {job.log}.",
    )


def _context() -> "ForkServerContext | SpawnContext":
    """How processes are started: by a server that has everything imported and forks, where that is safe with torch."""
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """Libraries ask the environment for their number of threads once, when they are imported.

    The server that forks imports our package before it knows our path: it must not take one that happens to lie in the
    folder in which it was started.
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


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Jobs on any Ray cluster; their folder must be on storage that every node sees."""

    address: str | None = None
    gpus_per_run: float = 0.0
    jobs: int = 8
    device: str = "auto"

    def run(self, next_job: NextJob, prepare: Prepare = None) -> Iterator[tuple[JobSpec, Any]]:
        ray = need("ray", "The engine 'ray'", "ray")
        if not ray.is_initialized():
            ray.init(address=self.address, log_to_driver=False, configure_logging=False)
        remote = ray.remote(
            num_cpus=1, num_gpus=self.gpus_per_run, max_retries=ATTEMPTS - 1, retry_exceptions=False
        )(_execute_on_worker)  # fmt: skip
        waiting: dict[Any, JobSpec] = {}
        while True:
            while len(waiting) < self.jobs and (job := next_job()) is not None:
                waiting[remote.remote(job, prepare)] = job
            if not waiting:
                return
            finished, _ = ray.wait(list(waiting), num_returns=1)
            job = waiting.pop(finished[0])
            try:
                yield job, ray.get(finished[0])
            except ray.exceptions.RayError as error:
                raise CrossfeedError(f"Run '{job.name}' failed on the cluster: {error}") from error


def _execute_on_worker(job: JobSpec, prepare: Prepare) -> Any:
    with suppress(ImportError):
        import torch

        torch.set_num_threads(1)
    return job.call(*(() if prepare is None else (prepare(),)), *job.arguments)


def make_engine(name: str, jobs: int, address: str | None = None, gpus_per_run: float = 0.0) -> Engine:
    """An engine by its name on the command line."""
    if name == "local":
        return LocalEngine(jobs)
    if name == "ray":
        return RayEngine(address, gpus_per_run, jobs=jobs)
    raise ConfigError(f"There is no engine '{name}'.", expected="local or ray")


@contextmanager
def one_bar(title: str, count: int, effort: float) -> Iterator[Callable[[str, float], None]]:
    """One bar over all jobs, and none of a single job across it; in a pipe a line for each that has ended."""
    say, quiet, ended = console(), is_quiet(), 0
    with progress(title, effort) as bar:

        def tell(words: str, done: float) -> None:
            nonlocal ended
            ended += 1
            bar.advance(done, words)
            if not say.is_terminal or os.environ.get("CI"):
                say.print(f"[{ended}/{count}] {words}", markup=False, soft_wrap=True)

        be_quiet()
        try:
            yield tell
        finally:
            be_quiet(quiet)


def run_all(
    title: str, plan: Sequence[JobSpec], shared: Any, prepare: Callable[[], Any], processes: int,
    words: Callable[[Any], str],
) -> Iterator[tuple[JobSpec, Any]]:  # fmt: skip
    """Every job with what all share: here one after the other, or in processes that each `prepare`, longest first."""
    engine: Engine = InProcess()
    if processes > 1:
        engine = LocalEngine(processes, threads=max(1, (os.cpu_count() or 1) // processes))
        plan = sorted(plan, key=lambda job: -job.effort)
    waiting = iter(plan)
    with one_bar(title, len(plan), sum(job.effort for job in plan)) as tell:
        for job, outcome in engine.run(
            lambda: next(waiting, None), (lambda: shared) if processes == 1 else prepare
        ):  # fmt: skip
            tell(f"{job.name}: {words(outcome)}", job.effort)
            yield job, outcome
