"""One archive that a third party can verify without the data: database, lock, results and run artefacts."""

import tarfile
import tempfile
from pathlib import Path
from typing import Literal, get_args

from crossfeed.atomic import atomic_file
from crossfeed.errors import ConfigError, StorageError
from crossfeed.study.record.store import Store
from crossfeed.study.verify import WEIGHTS_SUFFIX, Verification, verify

Weights = Literal["all", "locked", "none"]

# Tables and vault stay at home; locks and logs are of no use elsewhere.
_KEPT = ("runs", "results", "lock.json")


def export(store: Store, archive: Path, weights: Weights = "all") -> Path:
    """Write the archive; the database is copied as it is after everything in its log has been folded in.

    Weights are nearly all of its size: it can hold those of every run, of the locked one or none.
    """
    if weights not in get_args(Weights):
        raise ConfigError(f"An archive cannot hold the weights '{weights}'.", expected=", ".join(get_args(Weights)))
    with store.transaction() as connection:
        connection.execute("SELECT 1")
    with store.reading() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    locked = [entry.content["run"] for entry in store.entries("lock")]

    def wanted(item: tarfile.TarInfo) -> tarfile.TarInfo | None:
        path = Path(item.name)
        kept = weights == "all" or (weights == "locked" and path.parent.name in locked)
        return item if kept or path.suffix != WEIGHTS_SUFFIX else None

    with atomic_file(archive) as temporary, tarfile.open(temporary, "w:gz") as tar:
        tar.add(store.path, "study/study.db")
        for name in _KEPT:
            if (store.folder / name).exists():
                tar.add(store.folder / name, f"study/{name}", filter=wanted)
    return archive


def verify_anything(path: Path) -> Verification:
    """Check a study folder whole, or everything that is in an exported archive."""
    if not path.is_file():
        return verify(Store(path))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with tarfile.open(path) as tar:
                tar.extractall(scratch, filter="data")
        except (OSError, EOFError, tarfile.TarError) as error:
            raise StorageError(f"The archive {path} cannot be read: {error}.") from error
        return verify(Store(Path(scratch) / "study"), whole=False)
