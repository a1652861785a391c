"""An append-only, hash-chained list of what happened in a study, kept in the study's SQLite file.

Every entry holds the hash of the one before it, so an edited, removed or reordered entry breaks the chain from there
on. What a chain alone cannot show is that its tail was cut off or that all of it was written anew: for that, keep the
head hash that `crossfeed study status` prints somewhere else (a paper, a repository, a colleague).
"""

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

GENESIS = "0" * 64

CREATE = """
CREATE TABLE IF NOT EXISTS ledger (
    number INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE
) STRICT
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened."""

    number: int
    time: str
    kind: str
    content: dict[str, Any]
    previous: str
    hash: str


def canonical_json(content: Any) -> str:
    """One spelling per value, so that equal contents have equal hashes."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def append(connection: sqlite3.Connection, kind: str, content: Mapping[str, Any]) -> str:
    """Add an entry inside the caller's transaction and return its hash."""
    number, previous = connection.execute(
        "SELECT number + 1, hash FROM ledger ORDER BY number DESC LIMIT 1"
    ).fetchone() or (1, GENESIS)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    text = canonical_json(content)
    digest = _digest(number, time, kind, text, previous)
    connection.execute("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?)", (number, time, kind, text, previous, digest))
    return digest


def entries(connection: sqlite3.Connection, kind: str | None = None) -> list[Entry]:
    """All entries in order, or those of one kind."""
    rows = connection.execute("SELECT number, time, kind, content, previous, hash FROM ledger ORDER BY number")
    return [
        Entry(number, time, name, json.loads(content), previous, digest)
        for number, time, name, content, previous, digest in rows
        if kind in (None, name)
    ]


def head(connection: sqlite3.Connection) -> str:
    """The hash that stands for the whole history so far."""
    row = connection.execute("SELECT hash FROM ledger ORDER BY number DESC LIMIT 1").fetchone()
    return str(row[0]) if row else GENESIS


def broken_links(connection: sqlite3.Connection) -> list[str]:
    """Every place where the chain does not hold, in words; empty means whole."""
    problems, previous, expected = [], GENESIS, 1
    rows = connection.execute("SELECT number, time, kind, content, previous, hash FROM ledger ORDER BY number")
    for number, time, kind, text, link, digest in rows:
        if number != expected:
            problems.append(f"ledger entry {expected} is missing")
        if link != previous:
            problems.append(f"ledger entry {number} does not follow the one before it")
        if _digest(number, time, kind, text, link) != digest:
            problems.append(f"ledger entry {number} ({kind}) was changed after it was written")
        previous, expected = digest, number + 1
    return problems


def _digest(number: int, time: str, kind: str, text: str, previous: str) -> str:
    return hashlib.sha256(canonical_json([number, time, kind, text, previous]).encode()).hexdigest()
