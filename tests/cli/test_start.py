"""A quick start leaves the collection of garbage as it found it; a quick end loses nothing that was said or begun."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from crossfeed.cli.common import quick_start


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize("before", [True, False])
def test_garbage_is_collected_again_after_a_start_that_failed(before: bool) -> None:
    gc.enable() if before else gc.disable()
    with suppress(ImportError), quick_start():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled() == before


@pytest.mark.parametrize("ours", [False, True])
def test_memory_of_a_process_that_was_not_ours_was_kept(ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """How a C library gives memory back is a setting of the whole process."""
    calls: list[bool] = []
    monkeypatch.setattr("crossfeed.cli.common._keep_freed_memory", lambda: calls.append(True))
    monkeypatch.setattr("crossfeed.cli.common.in_own_command", lambda: ours)
    with quick_start():
        assert calls == [True] * ours


# Whatever would be taken apart says so; what was registered and what a thread still writes must not be lost.
ENDING = """
import atexit, sys, threading, time
from crossfeed.cli.common import quick_end

class Lasting:
    def __del__(self):
        print("taken apart")

said = threading.Event()

def work():
    said.wait()
    time.sleep(0.2)
    print("thread")

lasting = Lasting()
with quick_end():
    atexit.register(print, "registered")
    threading.Thread(target=work).start()
    print("said")
    said.set()
    {end}
"""


def ended(end: str) -> tuple[int, list[str]]:
    found = subprocess.run(
        [sys.executable, "-c", ENDING.format(end=end)], capture_output=True, text=True, timeout=600, check=False
    )
    return found.returncode, found.stdout.splitlines()


@pytest.mark.parametrize("code", [0, 1, 130])
def test_a_quick_end_waits_for_threads_and_keeps_the_exit_code(code: int) -> None:
    assert ended(f"sys.exit({code})") == (code, ["said", "thread", "registered"])


def test_an_error_ends_as_it_always_did() -> None:
    assert ended("raise ValueError") == (1, ["said", "thread", "registered", "taken apart"])


def test_a_pipe_that_nobody_reads_is_still_noticed() -> None:
    """Flushing fails there, and Python says so by an exit code of its own."""
    command = [sys.executable, "-c", ENDING.format(end="sys.exit(0)")]
    buffered = os.environ | {"PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=buffered) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(600) == 120
