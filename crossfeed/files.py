"""Files appear whole or not at all (write under a temporary name, sync, rename), and are known by their hash.

Results are JSON without NaN, sealed where a changed digit must be seen. A folder that belongs to one piece of work has
a file that says whose it is, and nobody else writes there. Lock files go when the process that holds them dies.
"""

import errno
import hashlib
import json
import math
import os
import re
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path, PurePath
from typing import Any

from filelock import FileLock, Timeout

from crossfeed.configuration import differences
from crossfeed.errors import ConfigError, CrossfeedError, StorageError

__version__ = "0.2.0"  # of the package, which names itself in what it writes
CHECKSUM = "checksum"
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


def plain(value: Any) -> Any:
    """Numbers, texts, lists and dictionaries only; what is no finite number becomes null."""
    if type(value) is float:  # by far the most frequent
        return value if math.isfinite(value) else None
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # arrays and scalars of numpy, without importing it
        return plain(value.tolist())
    return str(value) if isinstance(value, PurePath) else value


def write_json(path: Path | str, content: Any) -> None:
    """Write a result as readable JSON."""
    text = json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False)
    with atomic_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def checksum(content: Any, blocks: Iterable[bytes] = ()) -> str:
    """SHA-256 over plain data, in the order of its entries, and over the blocks of bytes that belong to it."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=str)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    for block in blocks:
        digest.update(hashlib.sha256(block).digest())
    return f"sha256:{digest.hexdigest()}"


def verify(
    path: Path | str, stated: object, expected: str, remedy: str, problem: type[CrossfeedError] = StorageError
) -> None:
    """Refuse a file whose checksum is missing or is not that of what it holds."""
    if stated != expected:
        raise problem(
            f"{path} was changed after it was written: "
            + ("its checksum is missing." if stated is None else "its checksum does not fit."),
            expected="the file as crossfeed wrote it",
            remedy=remedy,
        )


def write_sealed(path: Path | str, content: Any) -> None:
    """Write names and values as JSON whose last entry is the checksum of all others."""
    entries = plain(content)
    entries.pop(CHECKSUM, None)
    write_json(path, {**entries, CHECKSUM: checksum(entries)})


def read_sealed(path: Path | str, remedy: str = "Make it again with the command that wrote it.") -> dict[str, Any]:
    """What `write_sealed` wrote; a file that was changed, or that lost its checksum, is refused."""
    content = read_json(path, remedy)
    stated = content.pop(CHECKSUM, None)
    verify(path, stated, checksum(content), "Make it again with the command that wrote it, or restore it from a copy.")
    return content


def read_json(path: Path | str, remedy: str = "Make it again with the command that wrote it.") -> dict[str, Any]:
    """The names and values of a JSON file, of which nothing is claimed."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{path} cannot be read: {error}.", expected="a JSON file written by crossfeed", remedy=remedy
        ) from error
    if not isinstance(content, dict):
        raise StorageError(f"{path} holds no JSON object.", expected="a JSON file written by crossfeed", remedy=remedy)
    return content


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


class HeldElsewhereError(Exception):
    """Another process holds the lock and nobody wanted to wait."""


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock file for the length of the block and remove it afterwards."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        raise HeldElsewhereError(str(path)) from None
    except OSError as error:
        raise storage_error("Making the lock file", path, error) from error
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no file that is open
            path.unlink(missing_ok=True)
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock file now."""
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False
