"""Results as plain data: JSON without NaN, written whole or not at all; sealed, where a changed digit must be seen.

Every file of ours that would mislead after an accident (JSON, tables, histories, checkpoints) holds one entry named
`checksum`, made by `checksum` of everything else in it; without that entry it is refused like one that was changed.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path, PurePath
from typing import Any

from crossfeed.atomic import atomic_file
from crossfeed.errors import CrossfeedError, StorageError

CHECKSUM = "checksum"


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
