"""Commands as a user types them, without the seconds that a new interpreter needs to import torch."""

import io
import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from crossfeed.cli import main


def as_words(settings: Mapping[str, object]) -> list[str]:
    """Settings as they are typed behind a command."""
    return [f"--set={name}={json.dumps(value)}" for name, value in settings.items()]


def typed(*words: object, folder: Path | None = None) -> "CompletedProcess[str]":
    """What `crossfeed ...` prints and how it ends; errors of ours become words, every other one goes through."""
    arguments, code = ["crossfeed", *map(str, words)], 0
    out, error = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(error):
        patched.setattr(sys, "argv", arguments)
        if folder is not None:
            patched.chdir(folder)
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return CompletedProcess(arguments, code, out.getvalue(), error.getvalue())
