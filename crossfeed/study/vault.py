"""The sealed target: its rows are kept under a keystream, and only a recorded opening turns them back into a table.

This stops accidents, not malice: the key lies in the study file, and nobody can make a person forget a file they have
elsewhere. What it does guarantee is that no function of this package returns a target row before the ledger says so.
"""

import hashlib
import secrets
import tempfile
from pathlib import Path
from typing import Any

from crossfeed.errors import ConfigError, StorageError
from crossfeed.files import atomic_file, file_hash
from crossfeed.logs.table import Table
from crossfeed.study.record import ledger
from crossfeed.study.record.store import Store

CONFIRMATORY = "confirmatory"
_MAGIC = b"crossfeed sealed table 1\n"


def seal(folder: Path, table_path: Path) -> dict[str, Any]:
    """Put one table into the vault and describe it without its rows; the caller records the description."""
    table = Table.read(table_path)
    content, key = table_path.read_bytes(), secrets.token_hex(32)
    name = f"{table_path.stem}.sealed"
    target = folder / "vault" / name
    with atomic_file(target) as temporary:
        temporary.write_bytes(_MAGIC + _apply_keystream(content, key))
    return {
        "name": name,
        "key": key,
        "sealed_sha256": file_hash(target),
        "table_fingerprint": table.fingerprint(),
        "machines": list(table.machines()),
        "rows": len(table),
        "groups": len(table.groups),
        "shared_sensors": list(table.shown()),
    }


def reveal(store: Store, entry: str) -> list[Table]:
    """Read every sealed table, if the ledger has this hash of an opening still without a result, or of a release."""
    if entry not in _rights(store.entries()):
        raise ConfigError(
            "The vault stays closed: there is no recorded opening for this read.",
            expected="an opening written to the ledger after a lock and not used before",
            remedy="Use crossfeed study unseal, after a lock (and, for a second opening, after a declaration).",
        )
    return [_read(store.folder, sealed) for sealed in store.protocol()["vault"]]


def _rights(history: list[ledger.Entry]) -> set[str]:
    """Entries that stand where they may: the confirmatory opening after the lock, all else after its result."""
    rights: set[str] = set()
    locked = confirmed = False
    for entry in history:
        locked |= entry.kind == "lock"
        first = entry.kind == "opening" and locked and entry.content["purpose"] == CONFIRMATORY
        if first or (entry.kind in ("opening", "release") and confirmed):
            rights.add(entry.hash)
        if entry.kind == "opening result":
            rights.discard(entry.content["opening"])
            confirmed |= entry.content["purpose"] == CONFIRMATORY
    return rights


def was_opened(history: list[ledger.Entry]) -> bool:
    """Whether the confirmatory opening was carried out to its result."""
    return any(entry.kind == "opening result" and entry.content["purpose"] == CONFIRMATORY for entry in history)


def damaged(store: Store) -> list[str]:
    """Every sealed table that is missing or no longer what it was at init; empty means whole."""
    problems = []
    for sealed in store.protocol()["vault"]:
        path = store.folder / "vault" / sealed["name"]
        if not path.is_file():
            problems.append(f"the sealed table {sealed['name']} is missing")
        elif file_hash(path) != sealed["sealed_sha256"]:
            problems.append(f"the sealed table {sealed['name']} was changed")
    return problems


def _read(folder: Path, sealed: dict[str, Any]) -> Table:
    path = folder / "vault" / sealed["name"]
    content = path.read_bytes() if path.is_file() else b""
    if not content.startswith(_MAGIC) or hashlib.sha256(content).hexdigest() != sealed["sealed_sha256"]:
        raise StorageError(
            f"The sealed table {path} is missing or was changed since the study began.",
            remedy="Restore it from a copy of the study folder; crossfeed study verify lists everything that changed.",
        )
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "target.parquet"
        plain.write_bytes(_apply_keystream(content[len(_MAGIC) :], sealed["key"]))
        return Table.read(plain)


def _apply_keystream(content: bytes, key: str) -> bytes:
    stream = hashlib.shake_256(bytes.fromhex(key)).digest(len(content))
    size = len(content)
    return (int.from_bytes(content, "little") ^ int.from_bytes(stream, "little")).to_bytes(size, "little")
