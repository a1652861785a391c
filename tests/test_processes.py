"""A copy of this process beside it: where it may be made, what it gives back, what happens when it dies."""

import os
import signal
import subprocess
import sys

import pytest

from crossfeed.processes import beside

# In a fresh interpreter: this one has loaded torch, whose threads forbid a copy.
COPIED = """
import sys
from crossfeed.processes import beside
from tests.test_processes import where
with beside(where, sys.argv[1]) as outcome:
    print(*outcome())
"""
PARENT = os.getpid()


def where(known: str) -> tuple[str, bool]:
    """What the copy is asked to do."""
    if known == "dies" and os.getpid() != PARENT:
        os.kill(os.getpid(), signal.SIGKILL)
    if known == "fails":
        raise ValueError("broken")
    return known, os.getpid() == PARENT


two_cores = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="a copy is made on Linux with two cores"
)


def copied(word: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", COPIED, word], capture_output=True, text=True, timeout=60, check=False)


@two_cores
def test_a_process_with_one_thread_is_copied() -> None:
    assert copied("once").stdout.split() == ["once", "False"]


@two_cores
def test_what_a_copy_could_not_finish_is_done_here() -> None:
    assert copied("dies").stdout.split() == ["dies", "True"]


def test_an_error_in_a_copy_is_raised_here() -> None:
    assert "ValueError: broken" in copied("fails").stderr


def test_a_process_with_threads_does_the_work_itself() -> None:
    import torch  # noqa: F401

    with beside(lambda number: (number, os.getpid()), 3) as outcome:
        assert outcome() == (3, os.getpid())
