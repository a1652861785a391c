"""What makes a study the one it was: the version of its protocol, its source tables, the package's source files."""

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import crossfeed
from crossfeed.errors import ConfigError, TableError
from crossfeed.ingest.table import Table
from crossfeed.study.record.store import Store

# Raised whenever the meaning of a study changes, so that numbers of different meanings never meet in one table.
PROTOCOL_VERSION = 4


def check_version(store: Store) -> dict[str, Any]:
    """The protocol of a study this version of the package may go on with."""
    protocol = store.protocol()
    if protocol["protocol_version"] != PROTOCOL_VERSION:
        raise ConfigError(
            f"{store.folder} follows protocol version {protocol['protocol_version']}.",
            expected=f"version {PROTOCOL_VERSION}, the one this crossfeed {crossfeed.__version__} speaks",
            remedy="Go on with the crossfeed version that began the study, or start a new one.",
        )
    return protocol


def source_tables(store: Store) -> list[Table]:
    """The study's own copies of its source tables, checked against the fingerprints of the protocol."""
    tables = []
    for source in store.protocol()["sources"]:
        table = Table.read(store.folder / "tables" / source["name"])
        if table.fingerprint() != source["fingerprint"]:
            raise TableError(
                f"The source table {source['name']} is not the one the study began with.",
                remedy="Restore it from a copy; crossfeed study verify lists everything that changed.",
            )
        tables.append(table)
    return tables


def check_sources(store: Store, sources: Sequence[Path]) -> None:
    """Going on with a study takes the very tables it began with."""
    began = [source["fingerprint"] for source in store.protocol()["sources"]]
    if [Table.read(path).fingerprint() for path in sources] != began:
        raise ConfigError(
            f"{store.folder} holds a study of other source tables.",
            remedy="Choose another folder, or give the tables it began with.",
        )


@cache
def code_hash() -> str:
    """SHA-256 over every source file and candidate list of the installed package, as this process found it."""
    digest = hashlib.sha256()
    root = Path(str(files("crossfeed")))
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".yaml")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
