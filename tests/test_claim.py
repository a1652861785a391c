"""A folder belongs to one piece of work."""

import json
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError, StorageError
from crossfeed.files import claim, read_claim


def test_the_same_work_goes_on_and_another_is_refused_with_what_differs(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    claim(folder, "mine.json", {"seed": 1, "model": {"width": 64}}, "a test")
    claim(folder, "mine.json", {"model": {"width": 64}, "seed": 1}, "a test")
    with pytest.raises(ConfigError, match=r"model\.width: 64 there, 32 asked; seed: 1 there, nothing asked"):
        claim(folder, "mine.json", {"model": {"width": 32}}, "a test")
    assert json.loads((folder / "mine.json").read_text())["seed"] == 1


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="not the folder of a test"):
        claim(tmp_path, "mine.json", {}, "a test")
    with pytest.raises(ConfigError, match="not the folder of a test"):
        claim(tmp_path / "thesis.txt", "mine.json", {}, "a test")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_hidden_files_do_not_count(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    claim(tmp_path, "mine.json", {"seed": float("nan")}, "a test")
    claim(tmp_path, "mine.json", {"seed": float("nan")}, "a test")
    assert read_claim(tmp_path / "mine.json") == {"seed": None}


@pytest.mark.parametrize("text", ["{", "[1, 2]"])
def test_a_damaged_claim_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(StorageError, match=r"mine\.json"):
        claim(tmp_path, "mine.json", {}, "a test")
