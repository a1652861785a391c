"""Results as plain data: JSON without NaN, written whole or not at all; sealed, where a changed digit must be seen."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path, PurePath
from typing import Any

from crossfeed.atomic import atomic_file
from crossfeed.errors import StorageError

_SEAL, _KIND = "checksum", "sha256:"


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


def write_sealed(path: Path | str, content: Any) -> None:
    """Write names and values as JSON whose last entry is a hash of all others."""
    entries = plain(content)
    write_json(path, {**entries, _SEAL: _hash(entries)})


def read_sealed(path: Path | str, remedy: str = "Make it again with the command that wrote it.") -> dict[str, Any]:
    """What `write_sealed` wrote; a seal that does not fit is refused, and without a seal nothing is claimed."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{path} cannot be read: {error}.", expected="a JSON file written by crossfeed", remedy=remedy
        ) from error
    if not isinstance(content, dict):
        raise StorageError(f"{path} holds no JSON object.", expected="a JSON file written by crossfeed", remedy=remedy)
    name, seal = next(reversed(content.items()), ("", None))
    # Either of the two names the seal, so that a damaged name or a damaged value does not pass as no seal at all.
    if name != _SEAL and not (isinstance(seal, str) and seal.startswith(_KIND)):
        return content
    entries = {key: value for key, value in content.items() if key != name}
    if name != _SEAL or seal != _hash(entries):
        raise StorageError(
            f"{path} was changed after it was written: its checksum does not fit.",
            expected="the file as crossfeed wrote it",
            remedy="Make it again with the command that wrote it, or restore it from a copy.",
        )
    return entries


def _hash(entries: dict[str, Any]) -> str:
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":"))
    return _KIND + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
