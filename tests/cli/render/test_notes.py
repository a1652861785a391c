"""Remarks beside results: the command that comes next can be copied into a shell."""

import pytest

from crossfeed.cli.render.printing import next_step


def test_the_next_command_broke_at_the_blank_of_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    next_step("evaluate", "run a", "--table", "OTHER.parquet")
    said = capsys.readouterr()
    assert said.err == "next: crossfeed evaluate 'run a' --table OTHER.parquet\n"
    assert said.out == "", "standard output belongs to the results"
