import io
import sys
from types import ModuleType

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


class Output:
    """Stands in for the widget below a cell of a notebook: what is shown in it, in order."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.closed = False

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def clear_output(self, wait: bool) -> None: ...

    def close(self) -> None:
        self.closed = True


def notebook(monkeypatch: pytest.MonkeyPatch, widgets: ModuleType | None) -> list[Output]:
    """A process in a notebook, with the widgets that are installed there; the outputs below its cells."""
    outputs: list[Output] = []

    def display(shown: object) -> None:
        if isinstance(shown, Output):
            outputs.append(shown)
        else:
            outputs[-1].shown.append(str(getattr(shown, "text", "")))

    shown = ModuleType("IPython.display")
    shown.__dict__["display"] = display
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
    monkeypatch.setattr(room, "find_spec", lambda _: widgets)
    monkeypatch.setattr(room, "console", lambda: Console(force_jupyter=True, width=100))
    monkeypatch.delenv("CI", raising=False)
    return outputs


@pytest.fixture
def widgets() -> ModuleType:
    module = ModuleType("ipywidgets")
    module.__dict__["Output"] = Output
    return module


def test_a_notebook_sees_the_bar_and_then_nothing(monkeypatch: pytest.MonkeyPatch, widgets: ModuleType) -> None:
    outputs = notebook(monkeypatch, widgets)
    with room.progress("fit", total=2) as task:
        task.advance()
    (output,) = outputs
    drawn = "".join(output.shown)
    assert "fit" in drawn
    assert "/2" in drawn
    assert output.closed


def test_a_notebook_without_widgets_and_a_quiet_process_draw_no_bar(
    monkeypatch: pytest.MonkeyPatch, widgets: ModuleType, recwarn: pytest.WarningsRecorder
) -> None:
    bare = notebook(monkeypatch, None)
    with room.progress("fit", total=1) as task:
        task.advance()
    quiet = notebook(monkeypatch, widgets)
    room.be_quiet()
    with room.progress("fit", total=1) as task:
        task.advance()
    room.be_quiet(False)
    assert (bare, quiet, len(recwarn)) == ([], [], 0)
