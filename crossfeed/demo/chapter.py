"""Chapters: each does its work once, leaves a note when it is done, and is not repeated while what it made is there."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from crossfeed.errors import CrossfeedError
from crossfeed.json_file import write_json
from crossfeed.progress import console

NOTES = "chapters"


@dataclass(frozen=True, slots=True)
class ChapterResult:
    """What a chapter has to say in one line, and the files or folders (relative to the demo's folder) it stands for."""

    sentence: str
    made: tuple[str, ...] = ()
    seconds: float = 0.0  # that it took


@dataclass(frozen=True, slots=True)
class Chapter:
    """One step of the story; `work` may be stopped at any moment and goes on where it was when called again."""

    name: str
    title: str
    work: Callable[[], ChapterResult]


def run_chapters(folder: Path, chapters: Sequence[Chapter]) -> float:
    """Work through the chapters in order and say so; gives the seconds that were spent now."""
    spent = 0.0
    for number, chapter in enumerate(chapters, start=1):
        head = f"[bold]{number:>2}/{len(chapters)}[/] {chapter.title}"
        note = read_note(folder, chapter.name)
        if note is not None:
            console().print(f"{head} [dim](done before, {note.seconds:.0f} s)[/]")
            _say(note.sentence)
            continue
        console().print(head)
        began = time.monotonic()
        try:
            result = chapter.work()
        except CrossfeedError as error:
            error.remedy = _with_way_out(error.remedy, folder)
            raise
        seconds = time.monotonic() - began
        spent += seconds
        write_json(folder / NOTES / f"{chapter.name}.json", replace(result, seconds=round(seconds, 1)))
        _say(f"{result.sentence} ({seconds:.0f} s)")
    return spent


def read_note(folder: Path, name: str) -> ChapterResult | None:
    """The note of a finished chapter, if what it made is still there; a damaged note counts as none."""
    try:
        content = json.loads((folder / NOTES / f"{name}.json").read_text(encoding="utf-8"))
        note = ChapterResult(str(content["sentence"]), tuple(content["made"]), float(content["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return note if all((folder / path).exists() for path in note.made) else None


def _say(sentence: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console().print(Padding(Text(sentence), (0, 0, 0, 6)), soft_wrap=False)


def _with_way_out(remedy: str, folder: Path) -> str:
    begin_again = f"What is finished stays in {folder}: run the same command to go on, or remove it to start anew."
    return f"{remedy} {begin_again}" if remedy else begin_again
