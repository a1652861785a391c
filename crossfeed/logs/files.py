"""The files of a log: one file, a folder, a glob or a zip archive; and fetching public ones, resumable and checked.

The licence of what is fetched is the caller's to show first.
"""

import difflib
import json
import logging
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from crossfeed.errors import LogError
from crossfeed.files import storage_error, write_json
from crossfeed.logs.declaration import Download, LogFormat
from crossfeed.progress import progress

_LOGS = (".csv", ".txt", ".tsv", ".asc", ".gz", ".parquet", ".xml")
RECORD = "checksums.json"
_ATTEMPTS = 5
# A small archive can hold more than a disk: what it may become, in bytes, unless the user says otherwise.
UNPACKED_BYTES = 4 * 10**9


@contextmanager
def unpacked(path: Path, limit: float = UNPACKED_BYTES) -> Iterator[tuple[Path, Path | None]]:
    """The path itself, or a temporary folder with the logs of a zip archive and that archive.

    A folder that holds one archive and no logs, as after a download, counts as the archive. Archives in an archive or
    beside logs are left alone.
    """
    archive = path if path.is_file() and path.suffix.lower() == ".zip" else _only_archive(path)
    if archive is None:
        yield path, None
        return
    with tempfile.TemporaryDirectory(prefix="crossfeed-") as folder:
        _unpack(archive, Path(folder), limit)
        yield Path(folder), archive


def _only_archive(path: Path) -> Path | None:
    if not path.is_dir() or any(file.name.lower().endswith(_LOGS) for file in path.rglob("*")):
        return None
    archives = list(path.glob("*.zip"))
    return archives[0] if len(archives) == 1 else None


def _unpack(path: Path, folder: Path, limit: float) -> None:
    left = limit
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not m.is_dir() and m.filename.lower().endswith(_LOGS)]
            stated = sum(member.file_size for member in members)
            if stated > limit:
                raise too_large(path, limit, f"{stated / 1e9:,.1f} GB")
            for member in members:
                # Only safe parts of the name: an archive must not write outside its folder.
                parts = [part for part in Path(member.filename).parts if part not in ("/", "..")]
                target = folder.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as out:
                    while chunk := source.read(1 << 20):
                        left -= len(chunk)
                        if left < 0:  # what an archive states about itself need not be true
                            raise too_large(path, limit, f"more than {limit / 1e9:,.1f} GB")
                        out.write(chunk)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise LogError(
            f"{path} is not a whole zip archive: {error}",
            expected="a complete, unencrypted zip file",
            remedy="Download it again (`crossfeed data fetch` goes on where it stopped).",
        ) from error
    except OSError as error:
        raise storage_error("Unpacking", path, error) from error
    if not members:
        raise LogError(f"{path} holds no logs.", expected=f"files ending in {', '.join(_LOGS)}")


def too_large(path: Path, limit: float, size: str) -> LogError:
    """What to say about an archive that would fill the disk or the memory."""
    return LogError(
        f"{path} has {path.stat().st_size / 1e6:,.1f} MB and would become {size}.",
        expected=f"at most {limit / 1e9:g} GB of unpacked logs",
        remedy="If it really holds that much, allow it with --unpack-limit GIGABYTES.",
    )


def find_files(path: Path, patterns: Sequence[str]) -> list[Path]:
    """Files at a path: itself, those of a folder and its sub-folders that match a pattern, or those of a glob."""
    if path.is_file():
        return [path]
    if path.is_dir():
        files = {file for pattern in patterns for file in path.rglob(pattern) if file.is_file()}
        return sorted(file for file in files if not file.name.startswith("."))
    root = Path(path.anchor or ".")
    files = set(root.glob(str(path.relative_to(path.anchor)))) if path.name else set()
    if not files:
        raise LogError(f"There is nothing at {path}.", expected="a log file, a folder, a glob or a zip archive")
    return sorted(file for file in files if file.is_file())


def match_columns(header: Iterable[str], wanted: Sequence[str], where: str) -> dict[str, str]:
    """For each wanted name the header's own spelling, ignoring case and surrounding blanks; suggest near misses."""
    names = list(header)
    exact = {name.strip(): name for name in reversed(names)}
    loose: dict[str, list[str]] = {}
    for name in names:
        loose.setdefault(name.strip().lower(), []).append(name)
    spelling: dict[str, str] = {}
    missing: list[str] = []
    for name in wanted:
        candidates = loose.get(name.strip().lower(), [])
        if name.strip() in exact:
            spelling[name] = exact[name.strip()]
        elif len(candidates) == 1:
            spelling[name] = candidates[0]
        elif candidates:
            raise LogError(
                f"{where} has several columns for '{name}': {', '.join(candidates)}.",
                expected="column names that differ in more than case",
                remedy="Rename all but one.",
            )
        else:
            near = difflib.get_close_matches(name.strip().lower(), loose, n=1, cutoff=0.5)
            missing.append(f"'{name}'" + (f" (did you mean '{loose[near[0]][0].strip()}'?)" if near else ""))
    if len(missing) == len(wanted) > 1:
        raise LogError(
            f"{where} has none of the {len(wanted)} columns that are needed; it has {', '.join(names[:8])}"
            + (f" and {len(names) - 8} more." if len(names) > 8 else "."),
            expected=f"columns such as {', '.join(wanted[:4])}",
            remedy="Name the log itself, or describe it with a mapping (`crossfeed data template --from FILE`).",
        )
    if missing:
        raise LogError(
            f"{where} has no column {', '.join(missing)}.",
            expected=f"the columns {', '.join(wanted)}",
            remedy="Rename the columns in the file, or describe the file with a mapping (`crossfeed data template`).",
        )
    return spelling


def fetch(log_format: LogFormat, folder: Path | str, base_url: str | None = None, pause: float = 1.0) -> list[Path]:
    """Download a data set's files; what is already there is checked and kept, what is half there is continued."""
    import pooch

    if not log_format.downloads:
        raise LogError(
            f"'{log_format.name}' has no files to download.",
            expected="a kind with a download",
            remedy=f"Get the data from {log_format.homepage}." if log_format.homepage else "",
        )
    logging.getLogger("pooch").setLevel(logging.ERROR)
    folder = Path(folder)
    record = _read_record(folder)
    paths = []
    for download in log_format.downloads:
        url = f"{base_url.rstrip('/')}/{download.name}" if base_url else download.url
        checksum = download.sha256 or record.get(download.name, {}).get("sha256")
        try:
            file = pooch.retrieve(
                url,
                known_hash=checksum and f"sha256:{checksum}",
                fname=download.name,
                path=folder,
                downloader=_resuming(log_format, download, folder, pause),
            )
        except ValueError as error:
            raise LogError(
                f"{download.name} from {url} does not have the checksum it should have: {error}",
                expected=f"SHA-256 {checksum}",
                remedy=f"Try again; if it stays so, the file was changed: remove its entry from {folder / RECORD}.",
            ) from error
        except OSError as error:
            raise storage_error("Downloading to", folder, error) from error
        path = Path(file)
        record[download.name] = {"sha256": pooch.file_hash(file), "bytes": path.stat().st_size, "url": url}
        paths.append(path)
    write_json(folder / RECORD, record)
    return paths


def _read_record(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / RECORD
    if not path.is_file():
        return {}
    try:
        record: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LogError(f"{path} cannot be read: {error}", remedy="Remove it; checksums are recorded anew.") from error
    return record


def _resuming(
    log_format: LogFormat, download: Download, folder: Path, pause: float
) -> Callable[[str, str, object], None]:
    """A pooch downloader that goes on where an earlier one stopped, in this process or in the next."""
    partial = folder / f"{download.name}.partial"
    version = folder / f"{partial.name}.version"  # of the remote file that the partial one belongs to

    def get(url: str, output_file: str, _: object) -> None:
        with progress(f"fetch {download.name}") as task:
            reason: Exception | None = None
            for attempt in range(_ATTEMPTS):
                try:
                    if _continue(url, partial, version, task.advance):
                        partial.replace(output_file)
                        version.unlink(missing_ok=True)
                        return
                except httpx.HTTPStatusError as error:
                    raise LogError(
                        f"{url} answers {error.response.status_code} {error.response.reason_phrase}.",
                        expected="the file",
                        remedy=f"Download it by hand from {log_format.homepage} into {folder}.",
                    ) from error
                except httpx.TransportError as error:
                    reason = error
                if attempt + 1 < _ATTEMPTS:
                    time.sleep(pause * 2**attempt)
        done = partial.stat().st_size if partial.exists() else 0
        raise LogError(
            f"The download of {url} stopped after {done:,} bytes" + (f": {reason}" if reason else "."),
            remedy="Run the same command again: it goes on from there.",
        )

    return get


def _continue(url: str, partial: Path, version: Path, advance: Callable[[int], None]) -> bool:
    """Append to the partial file what is missing; false where it has to be begun anew."""
    headers = {"User-Agent": "crossfeed", "Accept-Encoding": "identity"}
    if partial.exists() and partial.stat().st_size:
        headers["Range"] = f"bytes={partial.stat().st_size}-"
        if version.exists():
            headers["If-Range"] = version.read_text(encoding="utf-8")
    with httpx.stream("GET", url, headers=headers, timeout=30.0, follow_redirects=True) as answer:
        if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            partial.unlink()  # as long as the remote file, or longer
            return False
        answer.raise_for_status()
        if stamp := answer.headers.get("ETag") or answer.headers.get("Last-Modified"):
            version.write_text(stamp, encoding="utf-8")
        with partial.open("ab" if answer.status_code == httpx.codes.PARTIAL_CONTENT else "wb") as out:
            for piece in answer.iter_raw():
                out.write(piece)
                advance(len(piece))
    return True
