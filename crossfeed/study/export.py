"""One archive that a third party can verify without the data: database, lock, results and run artefacts."""

import tarfile
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


def verify_archive(archive: Path, scratch: Path) -> Verification:
    """Unpack an exported study and check everything but the data."""
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(scratch, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise StorageError(f"The archive {archive} cannot be read: {error}.") from error
    return verify(Store(scratch / "study"), data=False)
