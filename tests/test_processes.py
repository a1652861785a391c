"""What child processes hear of Ctrl-C, and what is changed in a process that is not ours."""

import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection

import pytest

from crossfeed.processes import begin_own_command, starting_children

# In a fresh interpreter: only the first process that is started brings Python's own helper with it.
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


def masked(said: Connection) -> None:
    """What a child says of itself: does Ctrl-C pass it by?"""
    said.send(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))


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
