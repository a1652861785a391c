"""Progress on anything that takes longer than two seconds: a bar on a terminal or in a notebook, silence in a pipe."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_quiet = False
_PIPED_WIDTH = 250


def be_quiet(quiet: bool = True) -> None:
    """Switch every progress display of this process off (or on again)."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Whether progress displays are off."""
    return _quiet


def console() -> "Console":
    """The console for humans: standard error, so that standard output stays clean for data."""
    from rich.console import Console

    return Console(stderr=True, quiet=_quiet, highlight=False, soft_wrap=not sys.stderr.isatty())


def output() -> "Console":
    """The console for results: standard output; in a pipe no sentence is broken and a table has the room it needs."""
    from rich.console import Console

    piped = not sys.stdout.isatty()
    return Console(highlight=False, soft_wrap=piped, width=_PIPED_WIDTH if piped else None)


class ProgressTask:
    """One line of progress; `advance` it as work gets done."""

    def __init__(self, draw: Callable[[float, str | None], None] | None = None) -> None:
        self._draw = draw

    def advance(self, amount: float = 1.0, note: str | None = None) -> None:
        """Move the bar on, optionally with a short note beside it."""
        if self._draw is not None:
            self._draw(amount, note)


@contextmanager
def progress(description: str, total: float | None = None) -> Iterator[ProgressTask]:
    """Show a bar named `description` while the block runs, and none after it, in a pipe, in CI or when quiet."""
    target = console()
    # In a notebook rich draws with ipywidgets, and warns where they are missing.
    notebook = target.is_jupyter and find_spec("ipywidgets") is not None
    if _quiet or not (target.is_terminal or notebook) or os.environ.get("CI"):
        yield ProgressTask()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=target, transient=True) as bar:
        identifier = bar.add_task(description, total=total, note="")

        def draw(amount: float, note: str | None) -> None:
            if note is None:
                bar.update(identifier, advance=amount)
            else:
                bar.update(identifier, advance=amount, note=note)

        yield ProgressTask(draw)
