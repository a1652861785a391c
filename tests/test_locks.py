"""Locks of processes that live and die."""

import subprocess
import sys
from pathlib import Path

import pytest

from crossfeed.files import HeldElsewhereError, is_locked, locked

HOLD = """
import sys
from pathlib import Path
from crossfeed.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_counts_while_its_process_lives(tmp_path: Path) -> None:
    path, pipe = tmp_path / "new" / "one.lock", subprocess.PIPE
    assert not is_locked(path)
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=pipe, stdout=pipe, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert is_locked(path)
        with pytest.raises(HeldElsewhereError), locked(path, wait=False):
            pass
    finally:
        process.kill()
        process.communicate()
    assert not is_locked(path)
    with locked(path):
        assert path.exists()
    assert not path.exists(), "nothing is left behind"
