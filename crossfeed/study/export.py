"""One archive that a third party can verify without the data: database, lock, results and run artefacts."""

import tarfile
import tempfile
from pathlib import Path

from crossfeed.atomic import atomic_file
from crossfeed.errors import StorageError
from crossfeed.study.store import Store
from crossfeed.study.verify import Verification, verify

# Tables and vault stay at home; locks and logs are of no use elsewhere.
_KEPT = ("runs", "results", "lock.json")


def export(store: Store, archive: Path) -> Path:
    """Write the archive; the database is copied as it is after everything in its log has been folded in."""
    with store.transaction() as connection:
        connection.execute("SELECT 1")
    with store.reading() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with atomic_file(archive) as temporary, tarfile.open(temporary, "w:gz") as tar:
        tar.add(store.path, "study/study.db")
        for name in _KEPT:
            if (store.folder / name).exists():
                tar.add(store.folder / name, f"study/{name}")
    return archive


def verify_anything(path: Path) -> Verification:
    """Check a study folder whole, or everything but the data in an exported archive."""
    if not path.is_file():
        return verify(Store(path))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with tarfile.open(path) as tar:
                tar.extractall(scratch, filter="data")
        except (OSError, EOFError, tarfile.TarError) as error:
            raise StorageError(f"The archive {path} cannot be read: {error}.") from error
        return verify(Store(Path(scratch) / "study"), data=False)
