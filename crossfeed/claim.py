"""Folders that belong to one piece of work: a file in them says whose they are, and nobody else writes there."""

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crossfeed.configuration import differences
from crossfeed.errors import ConfigError
from crossfeed.json_file import plain, read_sealed, write_sealed


def claim(folder: Path, name: str, identity: Mapping[str, Any], what: str) -> None:
    """Make a folder `what`'s own by writing `name`, or see that what it holds is the same `what`."""
    path = folder / name
    if path.exists():
        _same(folder, read_claim(path), plain(identity), what)
    elif folder.exists() and not (folder.is_dir() and all(entry.name.startswith(".") for entry in folder.iterdir())):
        raise ConfigError(
            f"{folder} exists and is not the folder of {what}.", remedy="Choose a new folder or an empty one."
        )
    else:
        write_sealed(path, identity)


def read_claim(path: Path) -> dict[str, Any]:
    """What a folder's claim says."""
    return read_sealed(path, remedy="Begin again in another folder.")


def _same(folder: Path, found: dict[str, Any], wanted: dict[str, Any], what: str) -> None:
    different = differences(found, wanted)
    if different:
        listed = "; ".join(
            f"{name}: {_brief(one)} there, {_brief(two)} asked" for name, (one, two) in different.items()
        )
        raise ConfigError(
            f"{folder} holds {what} that is not the one asked for. {listed}.",
            remedy="Go on with the same settings and tables, or choose another folder.",
        )


def _brief(value: Any) -> str:
    return textwrap.shorten("nothing" if value is None else str(value), 80, placeholder=" ...")
