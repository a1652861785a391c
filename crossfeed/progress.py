"""Progress on anything that takes longer than two seconds: a bar on a terminal or in a notebook, silence in a pipe."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_quiet = False
_PIPED_WIDTH = 250
_REDRAWN_AFTER = 0.25  # seconds between two pictures of a bar in a notebook


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
    if not _quiet and _in_notebook():
        shown = NotebookBar(description, total)
        try:
            yield ProgressTask(shown.advance)
        finally:
            shown.remove()
        return
    if _quiet or not target.is_terminal or os.environ.get("CI"):
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


class NotebookBar:
    """A bar below a cell of a notebook; it needs nothing but the IPython that runs the notebook."""

    def __init__(self, description: str, total: float | None) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

        self._html, self._description, self._total = HTML, description, total
        self._done, self._note, self._began, self._drawn = 0.0, "", time.monotonic(), time.monotonic()
        self._handle = display(HTML(self.picture()), display_id=True)

    def advance(self, amount: float, note: str | None) -> None:
        """Move on; the picture follows a few times a second."""
        from rich.text import Text

        self._done += amount
        self._note = self._note if note is None else Text.from_markup(note).plain
        if time.monotonic() - self._drawn >= _REDRAWN_AFTER:
            self._drawn = time.monotonic()
            self._handle.update(self._html(self.picture()))

    def picture(self) -> str:
        """Name, bar, count, time left and note."""
        size = "" if self._total is None else f" value='{self._done:g}' max='{self._total:g}'"
        count = "" if self._total is None else f"{self._done:.0f}/{self._total:g}"
        left = ""
        if self._total and self._done > 0.0:
            seconds = (time.monotonic() - self._began) * (self._total / self._done - 1.0)
            left = f"{int(max(seconds, 0.0)) // 60}:{int(max(seconds, 0.0)) % 60:02d} left"
        words = " ".join(escape(word) for word in (count, left, self._note) if word)
        return f"<div><b>{escape(self._description)}</b> <progress{size}></progress> {words}</div>"

    def remove(self) -> None:
        """Leave nothing behind."""
        self._handle.update(self._html(""))


def _in_notebook() -> bool:
    """Whether the kernel of a notebook runs this process; a plain IPython prompt is a terminal."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")
