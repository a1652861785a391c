import io
from pathlib import Path

import pytest
from rich.console import Console

from crossfeed.study.board import matrix
from crossfeed.study.record.store import Run
from tests.study.conftest import CANDIDATES, Invented, begin


def run(candidate: str, seed: int, status: str, clean: float = 0.5) -> Run:
    outcome = {"invalid": "latents collapsed", "bundle": {"components": {"clean": clean}}}
    return Run(f"{candidate}-{seed}", candidate, seed, "search", {}, status, "", outcome)  # type: ignore[arg-type]


def drawn(runs: list[Run], height: int = 40) -> str:
    target = Console(file=io.StringIO(), width=100)
    target.print(matrix(runs, height))
    return target.file.getvalue()  # type: ignore[attr-defined]


def test_the_matrix_shows_every_run_by_candidate_and_seed() -> None:
    text = drawn(
        [run("a", 0, "finished", 0.731), run("a", 1, "running"), run("b", 0, "invalid"), run("b", 1, "pending")]
    )
    rows = [line for line in text.splitlines() if line.startswith("│")]
    assert [cell.strip() for cell in rows[0].split("│")[1:4]] == ["a", "0.731", "running"]
    assert [cell.strip() for cell in rows[1].split("│")[1:4]] == ["b", "invalid", "·"]
    assert "2 of 4" in text


def test_on_a_low_terminal_those_with_something_left_to_do_are_shown() -> None:
    runs = [run(f"done{i}", 0, "finished") for i in range(30)] + [run("busy", 0, "running")]
    text = drawn(runs, height=12)
    assert "busy" in text
    assert "and 26 more candidates" in text
    assert len(text.splitlines()) <= 12


def test_in_a_pipe_every_finished_run_is_a_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    study = begin(tmp_path / "study", target=False)
    study.plan(study.candidates(CANDIDATES[:2]), seeds=2)
    invalid = CANDIDATES[1]
    study.search(Invented(lambda *_: 0.75, invalid=lambda name, _: "no number" if name == invalid else ""))
    lines = capfd.readouterr().err.splitlines()
    assert lines == [
        f"1/4 {CANDIDATES[0]}, seed 0: clean RMSE 0.750",
        f"2/4 {CANDIDATES[0]}, seed 1: clean RMSE 0.750",
        f"3/4 {CANDIDATES[1]}, seed 0: invalid: no number",
        f"4/4 {CANDIDATES[1]}, seed 1: invalid: no number",
    ]


def test_on_a_terminal_the_table_is_drawn_while_the_search_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100, height=30)
    monkeypatch.setattr("crossfeed.study.board.console", lambda: terminal)
    monkeypatch.delenv("CI", raising=False)
    study = begin(tmp_path / "study", target=False)
    study.plan(study.candidates(CANDIDATES[:2]), seeds=1)
    study.search(Invented(lambda *_: 0.75))
    assert "2 of 2" in terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "0.750" in terminal.file.getvalue()  # type: ignore[attr-defined]
