"""A process that has everything imported and forks one process per run: a run starts in milliseconds, not seconds.

It reads names of runs from its standard input, one a line, and answers each with the exit code of the run.
"""

import importlib
import os
import sys
import time
from pathlib import Path

from crossfeed.errors import CrossfeedError
from crossfeed.processes import end_with_parent
from crossfeed.study.engines import REFUSED
from crossfeed.study.worker import execute

# What a run needs, including what pyarrow would load on first use. Imported, never called: a process that
# has started threads or a GPU must not fork.
PRELOADED = ("crossfeed.evaluation.bundle", "crossfeed.training.run", "pyarrow.dataset")


def serve(folder: Path, device: str, parent: int) -> None:
    """Run what is asked for until the asking process, whose number is `parent`, is gone."""
    for module in PRELOADED:
        importlib.import_module(module)
    for line in sys.stdin:
        if os.getppid() != parent:
            return
        name = line.strip()
        # Where forking a process with torch in it is not safe, the template is used up by its run.
        child = os.fork() if sys.platform == "linux" else 0
        if child == 0:
            _run(folder, name, device)
        print(_wait(child, parent), flush=True)


def _wait(child: int, parent: int) -> int:
    """The exit code of the run, negative for a signal; ends the run if nobody waits for it any more."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if os.getppid() != parent:
            os.kill(child, 9)
            os._exit(1)
        time.sleep(0.01)


def _run(folder: Path, name: str, device: str) -> None:
    """The forked process: its words go to the run's own log, its exit code says how it ended."""
    end_with_parent()
    log = os.open(folder / "logs" / f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 1
    try:
        execute(folder, name, device)
        code = 0
    except CrossfeedError as error:
        print(error, file=sys.stderr)
        code = REFUSED
    except Exception:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
