import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from crossfeed import progress as room


def test_nothing_is_drawn_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with room.progress("Counting", total=3) as task:
        for _ in range(3):
            task.advance(note="still going")
    assert capsys.readouterr().err == ""


def test_a_terminal_sees_the_name_the_count_and_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(room, "console", lambda: Console(file=screen, force_terminal=True, width=120))
    with room.progress("Counting", total=2) as task:
        task.advance()
        task.advance(note="all done")
    drawn = screen.getvalue()
    assert "Counting" in drawn
    assert "2/2" in drawn
    assert "all done" in drawn


def test_quiet_silences_remarks_and_can_be_undone(capsys: pytest.CaptureFixture[str]) -> None:
    room.be_quiet()
    room.console().print("a remark")
    room.be_quiet(False)
    assert capsys.readouterr().err == ""
    room.console().print("a remark")
    assert "a remark" in capsys.readouterr().err


def test_results_in_a_pipe_keep_long_paths_and_wide_tables_whole(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/a/folder/with/quite/a/long/name/" + "deeper/" * 20 + "plan.csv"
    room.output().print(f"Commands written to {path}")
    table = Table(*(f"a column that has a name {number}" for number in range(6)))
    table.add_row(*("a cell with several words in it" for _ in range(6)))
    room.output().print(table)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"Commands written to {path}"
    assert len(printed) == 1 + 5, "title rule, header, rule, row, rule"


def test_remarks_in_a_pipe_keep_long_paths_whole(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/a/folder/" + "deeper/" * 20 + "plan.csv"
    room.console().print(f"Commands written to {path}")
    assert path in capsys.readouterr().err


class Cell:
    """Stands in for what IPython shows below a cell: every picture, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shell: object) -> None:
        self.pictures: list[str] = []
        ipython, shown = ModuleType("IPython"), ModuleType("IPython.display")
        parts: dict[str, Any] = {"HTML": str, "display": self.display}
        shown.__dict__.update(parts)
        ipython.__dict__.update({"get_ipython": lambda: shell, "display": shown})
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", shown)
        monkeypatch.setattr(room, "_REDRAWN_AFTER", 0.0)

    def display(self, picture: str, display_id: bool) -> "Cell":
        assert display_id
        self.pictures.append(picture)
        return self

    def update(self, picture: str) -> None:
        self.pictures.append(picture)


def test_a_notebook_sees_the_bar_grow_and_then_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(monkeypatch, SimpleNamespace(kernel=object()))
    with room.progress("fit <b>", total=2) as task:
        task.advance()
        task.advance(note="[red]collapsed[/]")
    first, half, whole, last = cell.pictures
    assert "fit &lt;b&gt;" in first
    assert "value='1' max='2'" in half
    assert "1/2" in half
    assert "left" in half
    assert "collapsed" in whole
    assert "[red]" not in whole
    assert last == ""


def test_a_bar_in_a_notebook_goes_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(monkeypatch, SimpleNamespace(kernel=object()))
    with pytest.raises(RuntimeError), room.progress("fit"):
        raise RuntimeError
    assert cell.pictures[-1] == ""


def test_an_ipython_prompt_or_a_quiet_process_draws_no_notebook_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = Cell(monkeypatch, SimpleNamespace())
    with room.progress("fit", total=1) as task:
        task.advance()
    assert prompt.pictures == []
    notebook = Cell(monkeypatch, SimpleNamespace(kernel=object()))
    room.be_quiet()
    with room.progress("fit", total=1) as task:
        task.advance()
    room.be_quiet(False)
    assert notebook.pictures == []
