import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from crossfeed import __version__
from crossfeed.cli import app

STUDY = ("init", "search", "confirm", "lock", "declare", "unseal", "verify", "export", "status", "rank", "runs", "show")
PARTS = {"data": ("list", "show", "template", "fetch"), "study": STUDY}
COMMANDS = ("program", "simulate", "ingest", "audit", "windows", "train", "inspect", "evaluate", "adapt", "compare")
HEAVY = ("torch", "polars", "pyarrow", "pint", "scipy", "matplotlib", "plotly", "pydantic", "numpy")
EVERY = [[name] for name in (*COMMANDS, *PARTS)] + [[group, part] for group, parts in PARTS.items() for part in parts]


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_explains_itself(words: list[str]) -> None:
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output
    assert len(result.output.splitlines()) > 4


def test_the_list_of_commands_is_complete() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    assert all(re.search(rf"\b{name}\b", shown) for name in (*COMMANDS, *PARTS))
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"crossfeed {__version__}"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from crossfeed.cli import app; "
        f"CliRunner().invoke(app, ['--help']); print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_an_error_is_a_sentence_and_not_a_traceback() -> None:
    command = [sys.executable, "-m", "crossfeed.cli", "inspect", "nowhere.safetensors"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "error:" in result.stderr
    assert "nowhere.safetensors" in result.stderr
    assert "Traceback" not in result.stderr
