"""Remarks under tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from rich.console import Console

from crossfeed.progress import console


def next_step(*words: str | Path) -> None:
    """The command that usually comes next, beside the results and never among them."""
    told = " ".join(str(word) if str(word).isupper() else quote(str(word)) for word in words)
    console().print(f"next: crossfeed {told}", markup=False, style="dim", soft_wrap=True)


def absent_commands(target: Console, absent: Mapping[str, float]) -> None:
    """Say which commands a table lacks and what they are taken for."""
    for name, value in absent.items():
        target.print(f"[yellow]note:[/] the table has no {name}; it is taken as {value:g} throughout", highlight=False)


def sensors_not_read(target: Console, names: Sequence[str]) -> None:
    """Say which sensors of a table the model has never met."""
    if names:
        listed = ", ".join(names)
        target.print(
            f"[yellow]note:[/] never met before, so not read: {listed} (a model that began with fleet judges them with "
            "--new-sensors, and takes them in with `crossfeed adapt`)",
            highlight=False,
        )
