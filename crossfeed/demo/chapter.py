"""Chapters: each does its work once, leaves a note when it is done, and is not repeated while what it made is there."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from crossfeed.configuration import CheckedForm
from crossfeed.errors import ConfigError, CrossfeedError
from crossfeed.files import HeldElsewhereError, claim, locked, write_json
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


@contextmanager
def sole_worker(folder: Path, name: str, settings: CheckedForm, what: str) -> Iterator[None]:
    """Nobody else works in this folder meanwhile, and it is bound to these settings."""
    try:
        with locked(folder / f".{name}.lock", wait=False):
            claim(folder, f"{name}.json", settings.model_dump(mode="json"), what)
            yield
    except HeldElsewhereError:
        raise ConfigError(
            f"Another process works on {what} in {folder}.",
            remedy="Wait for its end, or choose another folder with --out.",
        ) from None


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


Data = Literal["simulated", "michigan", "mtconnect"]

# A narrow model with short memory: about 25 s of processor time for a run.
MODEL: dict[str, Any] = {
    "model.context": 16,
    "model.dropout": 0.0,
    "model.members": 1,
    "training.batch_size": 32,
    "training.steps_per_epoch": 40,
    "training.finetune_epochs": 11,
    "training.learning_rate": 0.003,
    "training.warmup_steps": 20,
    "training.average_decay": 0.98,
    "training.validation_windows": 128,
}
# Loads that stand still most of the time teach slowly: shorter training ends before the commands tell anything.
LONGER: dict[Data, dict[str, Any]] = {"mtconnect": {"training.finetune_epochs": 24}}
# The preset, the preset trained as if all machines were alike, and one with more ways to move.
CANDIDATES: dict[str, dict[str, Any]] = {
    "as_the_preset": {},
    "machines_alike": {"machines.gain": 0.0, "machines.level": 0.0, "machines.noise": 0.0},
    "four_movers": {"model.movers": 4},
}
SEEDS = 2
MINIMUM_SEEDS = 3
MOST_SEEDS = 5
JOBS = 2
RIVALS = ("persistence", "drift", "ridge", "trees", "gru+revin", "patchtst")


class DemoSettings(CheckedForm):
    """What a demo folder is bound to; another seed or other data need another folder."""

    data: Data = "simulated"
    logs: Path | None = None
    seed: int = Field(default=0, ge=0)

    @classmethod
    def of(cls, data: tuple[str, Path] | None, seed: int) -> Self:
        """The settings in the words of the command line: nothing for the simulator, else a kind of log and a folder."""
        from crossfeed.configuration import parse

        kind, logs = data or ("simulated", None)
        return parse(cls, {"data": kind, "logs": None if logs is None else logs.resolve(), "seed": seed}, "The demo")

    @property
    def model(self) -> dict[str, Any]:
        """What the study's candidates depart from."""
        return MODEL | LONGER.get(self.data, {})

    @property
    def simulated(self) -> bool:
        return self.data == "simulated"
