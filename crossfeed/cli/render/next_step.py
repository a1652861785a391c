"""The command that usually comes next."""

from pathlib import Path
from shlex import quote

from crossfeed.progress import console


def next_step(*words: str | Path) -> None:
    """Said beside the results and never among them."""
    command = " ".join(str(word) if str(word).isupper() else quote(str(word)) for word in words)
    console().print(f"next: crossfeed {command}", markup=False, style="dim", soft_wrap=True)
