import io

import pytest
from rich.console import Console

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
