from pathlib import Path

import pytest

from crossfeed.demo.chapter import NOTES, Chapter, ChapterResult, read_note, run_chapters
from crossfeed.errors import CrossfeedError


def _chapter(folder: Path, name: str, log: list[str]) -> Chapter:
    def work() -> ChapterResult:
        log.append(name)
        (folder / name).write_text("made")
        return ChapterResult(f"{name} was made", (name,))

    return Chapter(name, f"Making {name}", work)


def test_a_finished_chapter_is_told_from_memory_while_its_work_is_there(tmp_path: Path) -> None:
    log: list[str] = []
    chapters = [_chapter(tmp_path, name, log) for name in ("one", "two")]
    run_chapters(tmp_path, chapters)
    run_chapters(tmp_path, chapters)
    assert log == ["one", "two"]
    (tmp_path / "two").unlink()
    run_chapters(tmp_path, chapters)
    assert log == ["one", "two", "two"]


def test_a_chapter_that_fails_leaves_no_note_and_says_the_way_on(tmp_path: Path) -> None:
    log: list[str] = []

    def fail() -> ChapterResult:
        raise CrossfeedError("The disk is full.", remedy="Free some space.")

    with pytest.raises(CrossfeedError, match=r"Free some space\. What is finished stays"):
        run_chapters(tmp_path, [_chapter(tmp_path, "one", log), Chapter("two", "Two", fail)])
    assert read_note(tmp_path, "one") is not None
    assert read_note(tmp_path, "two") is None


@pytest.mark.parametrize("damage", ["", "{", '{"sentence": "s"}', "[]"])
def test_a_damaged_note_counts_as_none(tmp_path: Path, damage: str) -> None:
    log: list[str] = []
    run_chapters(tmp_path, [_chapter(tmp_path, "one", log)])
    (tmp_path / NOTES / "one.json").write_text(damage)
    run_chapters(tmp_path, [_chapter(tmp_path, "one", log)])
    assert log == ["one", "one"]
