"""Files appear whole or not at all (write under a temporary name, sync, rename), and are known by their hash."""

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crossfeed.errors import StorageError

_REMEDIES = {
    errno.ENOSPC: "Free some disk space or choose another folder, then run the same command again.",
    errno.EDQUOT: "Free some of your quota or choose another folder, then run the same command again.",
    errno.EACCES: "Choose a folder you may write to.",
    errno.EROFS: "Choose a folder on a disk that is not read-only.",
}


def storage_error(action: str, path: Path, error: OSError) -> StorageError:
    """Put an operating-system error into words a user can act on."""
    # Libraries written in Rust leave errno empty and put the number at the end of the text.
    told = re.search(r"\(os error (\d+)\)", str(error))
    number = error.errno or (int(told[1]) if told else 0)
    remedy = _REMEDIES.get(number, "Check the path and try again.")
    return StorageError(f"{action} {path} failed: {error.strerror or error}.", remedy=remedy)


@contextmanager
def atomic_file(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path to write to; on success it replaces `path`, on any error nothing is left behind."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        raise storage_error("Writing", path, error) from error
    finally:
        with suppress(OSError):  # a folder that is none, or a disk that is gone, must not hide the error above
            temporary.unlink(missing_ok=True)


@contextmanager
def temporary_file(content: bytes, name: str) -> Iterator[Path]:
    """Bytes in a file of their own that is gone afterwards, for readers that want a path."""
    with tempfile.TemporaryDirectory(prefix="crossfeed-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        yield path


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_hash(path: Path) -> str:
    """SHA-256 of what a file holds."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
