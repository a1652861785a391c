"""Remarks under tables."""

from collections.abc import Mapping

from rich.console import Console


def absent_commands(console: Console, absent: Mapping[str, float]) -> None:
    """Say which commands a table lacks and what they are taken for."""
    for name, value in absent.items():
        console.print(f"[yellow]note:[/] the table has no {name}; it is taken as {value:g} throughout", highlight=False)
