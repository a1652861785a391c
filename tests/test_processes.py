"""A copy of this process beside it: where it may be made, what it gives back, what happens when it dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from crossfeed.processes import begin_own_command, each_taken_once, in_forked_process, starting_children

# In a fresh interpreter: this one has loaded torch, whose threads forbid a copy.
COPIED = """
import sys
from crossfeed.processes import in_forked_process
from tests.test_processes import where
with in_forked_process(where, sys.argv[1]) as outcome:
    print(*outcome())
"""
SHARED = """
import sys
from functools import partial
from crossfeed.processes import in_forked_process, each_taken_once
from tests.test_processes import taken
take = partial(taken, sys.argv[1])
with each_taken_once([10 * number for number in range(300)]) as left, in_forked_process(take, left) as outcome:
    here, there = take(left), outcome()
assert sorted(here + there) == [(number, 10 * number) for number in range(300)]
print(bool(here), bool(there))
"""
# In a fresh interpreter too: only the first process that is started brings Python's own helper with it.
FIRST_CHILD = """
import signal, sys
from multiprocessing import forkserver, get_context
from crossfeed.processes import starting_children
from tests.test_processes import masked
context = get_context(sys.argv[1])
answers, said = context.Pipe(duplex=False)  # a queue would bring the helper before its time
with starting_children():
    context.Process(target=masked, args=(said,)).start()
server = forkserver._forkserver._forkserver_pid
blocked = int(open(f"/proc/{server}/status").read().split("SigBlk:")[1].split()[0], 16) if server else 2
mine = signal.pthread_sigmask(signal.SIG_BLOCK, ())
print(bool(blocked >> signal.SIGINT - 1 & 1), answers.recv(), signal.SIGINT in mine)
"""
PARENT = os.getpid()


def masked(said: Connection) -> None:
    """What a child says of itself: does Ctrl-C pass it by?"""
    said.send(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def where(known: str) -> tuple[str, bool]:
    """What the copy is asked to do."""
    if known == "dies" and os.getpid() != PARENT:
        os.kill(os.getpid(), signal.SIGKILL)
    if known == "fails":
        raise ValueError("broken")
    return known, os.getpid() == PARENT


def taken(folder: str, left: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Waits after its first piece until the other one has one too, however slowly that began."""
    found = []
    for piece in left:
        found.append(piece)
        (Path(folder) / str(os.getpid())).touch()
        while len(list(Path(folder).iterdir())) < 2:
            time.sleep(0.001)
    return found


two_cores = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="a copy is made on Linux with two cores"
)


def copied(word: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COPIED, word], capture_output=True, text=True, timeout=600, check=False
    )


@two_cores
def test_a_process_with_one_thread_is_copied() -> None:
    assert copied("once").stdout.split() == ["once", "False"]


@two_cores
def test_what_a_copy_could_not_finish_is_done_here() -> None:
    assert copied("dies").stdout.split() == ["dies", "True"]


@two_cores
def test_a_process_and_its_copy_take_every_piece_of_work_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHARED, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert said.stdout.split() == ["True", "True"]


def test_alone_a_process_takes_all_pieces_in_their_order() -> None:
    with each_taken_once("abc") as left:
        assert list(left) == [(0, "a"), (1, "b"), (2, "c")]


def test_an_error_in_a_copy_is_raised_here() -> None:
    assert "ValueError: broken" in copied("fails").stderr


def test_a_process_with_threads_does_the_work_itself() -> None:
    import torch  # noqa: F401

    with in_forked_process(lambda number: (number, os.getpid()), 3) as outcome:
        assert outcome() == (3, os.getpid())


@pytest.mark.skipif(sys.platform != "linux", reason="masks are read in /proc")
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_ctrl_c_killed_the_first_child_while_it_was_being_started(method: str) -> None:
    """The helper that Python starts before the first child lifted the mask: that child heard Ctrl-C while it began."""
    command = [sys.executable, "-c", FIRST_CHILD, method]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["True", "True", "False"]  # the server that forks, the child, and not this process


@pytest.mark.parametrize("ours", [False, True])
def test_the_main_module_of_a_users_process_was_replaced(ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting of a whole process is changed in our own commands alone."""
    others = {name: value for name, value in os.environ.items() if name != "CROSSFEED_COMMAND"}
    monkeypatch.setattr(os, "environ", others)
    if ours:
        begin_own_command()
    main = sys.modules["__main__"]
    with starting_children():
        assert (sys.modules["__main__"] is main) != ours
    assert sys.modules["__main__"] is main
