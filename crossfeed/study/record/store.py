"""The study's SQLite file: its protocol, its runs and its ledger, safe against kills and against several processes.

Write-ahead logging with full sync: what `transaction` has left is on disk, what it has not left never happened. What
makes a study the one it was is checked here too: the version of its protocol, its tables, the package's source files.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from crossfeed.errors import ConfigError, StorageError, TableError
from crossfeed.files import __version__
from crossfeed.logs.table import Table
from crossfeed.study.record import ledger

Status = Literal["pending", "running", "finished", "invalid"]
UNFINISHED = ("pending", "running")
# Raised whenever the meaning of a study changes, so that numbers of different meanings never meet in one table.
PROTOCOL_VERSION = 4

_CREATE = (
    "CREATE TABLE IF NOT EXISTS protocol (content TEXT NOT NULL) STRICT",
    """CREATE TABLE IF NOT EXISTS runs (
        name TEXT PRIMARY KEY,
        candidate TEXT NOT NULL,
        seed INTEGER NOT NULL,
        stage TEXT NOT NULL,
        config TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'pending',
        owner TEXT NOT NULL DEFAULT '',
        outcome TEXT NOT NULL DEFAULT '{}'
    ) STRICT""",
    ledger.CREATE,
)


@dataclass(frozen=True, slots=True)
class Run:
    """One candidate with one seed: what to train, how far it is, and what came out."""

    name: str
    candidate: str
    seed: int
    stage: str
    config: dict[str, Any]
    status: Status
    owner: str
    outcome: dict[str, Any]


def run_name(candidate: str, seed: int) -> str:
    """What a run is called, everywhere."""
    return f"{candidate}-{seed}"


class Store:
    """Access to `study.db`; every method is one transaction."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "study.db"

    @property
    def exists(self) -> bool:
        """Whether a study was begun here; what an interrupted beginning left behind is none."""
        if not self.path.is_file():
            return False
        with self._connection() as connection:
            return _begun(connection)

    def refuse_existing(self) -> None:
        """A study is begun once."""
        if self.exists:
            raise ConfigError(
                f"{self.folder} already holds a study.",
                expected="a new or empty folder",
                remedy="Go on with the study that is there (crossfeed study status), or choose another folder.",
            )

    def create(self, protocol: dict[str, Any]) -> None:
        """Lay out an empty study; the first ledger entry holds its protocol."""
        self.refuse_existing()
        with self.transaction() as connection:
            for statement in _CREATE:
                connection.execute(statement)
            connection.execute("INSERT INTO protocol VALUES (?)", (ledger.canonical_json(protocol),))
            ledger.append(connection, "init", protocol)

    def protocol(self) -> dict[str, Any]:
        with self.reading() as connection:
            return self._decoded(connection.execute("SELECT content FROM protocol").fetchone()[0])

    def record(self, kind: str, content: dict[str, Any]) -> str:
        """Write one ledger entry and see it on disk before returning."""
        with self.transaction() as connection:
            return ledger.append(connection, kind, content)

    def entries(self, kind: str | None = None) -> list[ledger.Entry]:
        """Everything that happened, in order, or what happened of one kind."""
        with self.reading() as connection:
            return ledger.entries(connection, kind)

    def add_runs(self, runs: list[tuple[str, str, int, str, dict[str, Any]]]) -> int:
        """Plan runs as (name, candidate, seed, stage, config); those already planned are left as they are."""
        with self.transaction() as connection:
            known = {name for (name,) in connection.execute("SELECT name FROM runs")}
            fresh = [run for run in runs if run[0] not in known]
            for name, candidate, seed, stage, config in fresh:
                text = ledger.canonical_json(config)
                connection.execute(
                    "INSERT INTO runs (name, candidate, seed, stage, config) VALUES (?, ?, ?, ?, ?)",
                    (name, candidate, seed, stage, text),
                )
            if fresh:
                stages = {run[0]: run[3] for run in fresh}
                ledger.append(connection, "plan", {"runs": {run[0]: run[4] for run in fresh}, "stages": stages})
            return len(fresh)

    def runs(self, status: Status | None = None) -> list[Run]:
        """All runs in the order they were planned, or those of one status."""
        with self.reading() as connection:
            rows = connection.execute(
                "SELECT name, candidate, seed, stage, config, status, owner, outcome FROM runs ORDER BY rowid"
            )
            every = [
                Run(name, candidate, seed, stage, self._decoded(config), state, owner, self._decoded(outcome))
                for name, candidate, seed, stage, config, state, owner, outcome in rows
            ]
        return [run for run in every if status in (None, run.status)]

    def run(self, name: str) -> Run:
        """One run by its name."""
        found = next((run for run in self.runs() if run.name == name), None)
        if found is None:
            raise ConfigError(
                f"The study {self.folder} has no run named '{name}'.", remedy="List them with crossfeed study runs."
            )
        return found

    def claim(self, owner: str) -> Run | None:
        """Take the next pending run; no two processes ever get the same one."""
        with self.transaction() as connection:
            row = connection.execute(
                "UPDATE runs SET status = 'running', owner = ? WHERE name = "
                "(SELECT name FROM runs WHERE status = 'pending' ORDER BY rowid LIMIT 1) RETURNING name",
                (owner,),
            ).fetchone()
        return self.run(row[0]) if row else None

    def release(self, name: str) -> None:
        """Give an unfinished run back, for instance because its owner died."""
        with self.transaction() as connection:
            connection.execute(
                "UPDATE runs SET status = 'pending', owner = '' WHERE name = ? AND status = 'running'", (name,)
            )

    def finish(self, name: str, status: Status, outcome: dict[str, Any]) -> None:
        """Store an outcome once, in the run table and in the ledger; a second report of the same run is ignored."""
        text = ledger.canonical_json(outcome)
        with self.transaction() as connection:
            changed = connection.execute(
                "UPDATE runs SET status = ?, outcome = ?, owner = '' "
                "WHERE name = ? AND status NOT IN ('finished', 'invalid')",
                (status, text, name),
            ).rowcount
            if changed:
                ledger.append(connection, "run", {"name": name, "status": status, "outcome": outcome})

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write that happens whole or not at all."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # on a full disk SQLite has rolled back already
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for looking only."""
        no_study = ConfigError(
            f"{self.folder} holds no study.",
            expected="a folder made by crossfeed study init",
            remedy="Check the path, or start a study there.",
        )
        if not self.path.is_file():
            raise no_study
        with self._connection() as connection:
            if not _begun(connection):
                raise no_study
            yield connection

    def _decoded(self, text: str) -> dict[str, Any]:
        try:
            return dict(json.loads(text))
        except (TypeError, ValueError) as error:
            raise StorageError(
                f"The study file {self.path} holds something that is no JSON.",
                expected="what crossfeed wrote there",
                remedy="Run crossfeed study verify, and restore the folder from a copy.",
            ) from error

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=60.0, isolation_level=None)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:  # a damaged file gives names that are no text
            raise StorageError(
                f"The study file {self.path} cannot be used: {error}.",
                remedy="Check free disk space and write permission, then run the same command again; "
                "nothing was half-written.",
            ) from error
        finally:
            if connection is not None:
                connection.close()


def _begun(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'protocol'").fetchone() is not None


def check_version(store: Store) -> dict[str, Any]:
    """The protocol of a study this version of the package may go on with."""
    protocol = store.protocol()
    if protocol["protocol_version"] != PROTOCOL_VERSION:
        raise ConfigError(
            f"{store.folder} follows protocol version {protocol['protocol_version']}.",
            expected=f"version {PROTOCOL_VERSION}, the one this crossfeed {__version__} speaks",
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
