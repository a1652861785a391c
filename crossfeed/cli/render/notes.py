"""Remarks under tables."""

from collections.abc import Mapping, Sequence

from rich.console import Console


def absent_commands(console: Console, absent: Mapping[str, float]) -> None:
    """Say which commands a table lacks and what they are taken for."""
    for name, value in absent.items():
        console.print(f"[yellow]note:[/] the table has no {name}; it is taken as {value:g} throughout", highlight=False)


def sensors_not_read(console: Console, names: Sequence[str]) -> None:
    """Say which sensors of a table the model has never met."""
    if names:
        listed = ", ".join(names)
        console.print(
            f"[yellow]note:[/] never met before, so not read: {listed} (a model that began with fleet judges them with "
            "--new-sensors, and takes them in with `crossfeed adapt`)",
            highlight=False,
        )
