"""Fetch public data sets: resumable, checksummed; the licence is the caller's to show first."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from crossfeed.atomic import storage_error
from crossfeed.errors import LogError
from crossfeed.json_file import write_json
from crossfeed.machines.declaration import Download, LogFormat
from crossfeed.progress import progress

RECORD = "checksums.json"
_ATTEMPTS = 5


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
