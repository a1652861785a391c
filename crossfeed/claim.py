"""Folders that belong to one piece of work: a file in them says whose they are, and nobody else writes there."""

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crossfeed.configuration import leaves
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
    there, asked = leaves(found), leaves(wanted)
    different = [name for name in sorted(there | asked) if there.get(name) != asked.get(name)]
    if different:
        listed = "; ".join(f"{name}: {_brief(there, name)} there, {_brief(asked, name)} asked" for name in different)
        raise ConfigError(
            f"{folder} holds {what} that is not the one asked for. {listed}.",
            remedy="Go on with the same settings and tables, or choose another folder.",
        )


def _brief(content: dict[str, Any], name: str) -> str:
    return textwrap.shorten(str(content.get(name, "nothing")), 80, placeholder=" ...")
