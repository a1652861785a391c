"""How a delimited file is written: encoding, separator, decimal commas, lines before the header, a cut-off end."""

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

from crossfeed.atomic import storage_error
from crossfeed.errors import LogError

_SAMPLE_BYTES = 1 << 16
_LONGEST_LINE = 1 << 22
_SEPARATORS = (",", ";", "\t", "|")
_DECLARED = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
# What no name is made of: a number, or the numbers that the wrong separator leaves in one cell.
_NO_NAME = re.compile(r"(?=.*\d)[-+\d.,;|:/\seE]+")
_COMMA_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:\.\d{3})+|\d*),\d+([eE][-+]?\d+)?")
_POINT_NUMBER = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
# How files begin that are no text, in words.
_NO_TEXT = {
    b"PK\x03\x04": "an Excel workbook or a zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"\x1f\x8b": "packed with gzip",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF",
}
_JSON = re.compile(rb"\s*(\{\s*\"|\[\s*[\[{])")
# A header names most columns; before it stand remarks with fewer cells, or with numbers.
_NAMED, _NUMBERS = 0.8, 0.2
_LINES_LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one file is written; `skip` lines stand before the header."""

    encoding: str
    separator: str
    decimal_comma: bool
    header: tuple[str, ...]
    cut_short: bool
    skip: int


def sniff(path: Path, separator: str | None = None, decimal: str | None = None, fewest: int = 2) -> Dialect:
    """Look at the beginning and the end of a file and say how it is written."""
    head, tail, size = _ends(path)
    refuse_binary(path, head)
    if _JSON.match(head.removeprefix(b"\xef\xbb\xbf")):
        raise LogError(
            f"{path} is JSON, not a table of rows and columns.",
            expected="a CSV, text or Parquet file",
            remedy="Write one column for each signal; of a Siemens Edge capture the rows of HFData under the "
            "addresses in SignalListHFData.",
        )
    if not head.strip():
        raise LogError(f"{path} is empty.", expected="a header line and rows", remedy="Fetch or export the file again.")
    encoding = _encoding(head)
    lines = head.decode(encoding, errors="replace").lstrip("\ufeff").splitlines()
    whole = lines[:-1] if size > len(head) else lines
    if not whole:
        raise LogError(
            f"The first line of {path} has more than {_LONGEST_LINE:,} bytes.",
            expected="column names in the first line, and rows below it",
            remedy="Export the log again with a line for each row.",
        )
    declared = _DECLARED.fullmatch(whole[0].strip())
    first = 1 if declared else 0
    candidates = (separator,) if separator else (declared[1],) if declared else _SEPARATORS
    found = [(_header_line(path, whole[first:], mark), mark) for mark in candidates]
    (offset, cells, _), chosen = max(found, key=lambda one: (one[0][2], len(one[0][1]), -one[0][0]))
    skip = first + offset
    if len(cells) < fewest:
        raise LogError(
            f"The first line of {path} has one column: '{whole[skip][:80]}'.",
            expected="column names separated by comma, semicolon, tab or bar",
        )
    rows = [row for row in cells_of(path, whole[skip:], chosen) if row]
    _refuse_long_rows(path, rows, chosen, skip)
    last = tail.decode(encoding, errors="replace").splitlines()[-1]
    ended = tail.endswith((b"\n", b"\r", b"\x00"))
    cut_short = not ended and len(next(iter(cells_of(path, [last], chosen)), [])) < len(cells)
    commas = decimal == "," if decimal else _decimal_comma(rows[1:])
    return Dialect(encoding, chosen, commas, tuple(cells), cut_short, skip)


def cells_of(path: Path, lines: list[str], separator: str) -> list[list[str]]:
    """Lines as lists of cells."""
    try:
        return list(csv.reader(lines, delimiter=separator))
    except csv.Error as error:
        raise LogError(
            f"{path} cannot be cut into cells: {error}.", expected="short cells between separators"
        ) from error


def refuse_binary(path: Path, head: bytes) -> None:
    """Refuse files that are no text, in words that name what they are."""
    for mark, words in _NO_TEXT.items():
        if head.startswith(mark):
            raise LogError(
                f"{path} is {words}, not text.",
                expected="a CSV, text or Parquet file with the ending that says so",
                remedy="In Excel: save the sheet as CSV (File, Save as, CSV UTF-8). Unpack packed files first.",
            )


def _ends(path: Path) -> tuple[bytes, bytes, int]:
    """The beginning of a file with at least one whole line where there is one, its end, and its size."""
    try:
        with path.open("rb") as handle:
            head = handle.read(_SAMPLE_BYTES)
            while head.count(b"\n") < 1 and len(head) < _LONGEST_LINE and (more := handle.read(_SAMPLE_BYTES)):
                head += more
            size = handle.seek(0, io.SEEK_END)
            handle.seek(max(0, size - _SAMPLE_BYTES))
            return head, handle.read(), size
    except OSError as error:
        raise storage_error("Reading", path, error) from error


def _encoding(head: bytes) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        head[: head.rfind(b"\n") + 1 or None].decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def _header_line(path: Path, lines: list[str], separator: str) -> tuple[int, list[str], bool]:
    """Where the names stand, the names, and whether they look like names; the first line if none does."""
    rows = [next(iter(cells_of(path, [line], separator)), []) for line in lines[:_LINES_LOOKED_AT]]
    filled = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    usual = median_low([len(cells) for cells in filled if cells] or [0])  # separators may go on after the last column
    for number, (row, named) in enumerate(zip(rows, filled, strict=True)):
        numbers = sum(bool(_NO_NAME.fullmatch(cell)) for cell in named)
        if len(named) >= max(2, _NAMED * usual) and numbers <= _NUMBERS * len(named):
            return number, row, True
    first = next((number for number, row in enumerate(rows) if row), 0)
    return first, rows[first] if rows else [], False


def _refuse_long_rows(path: Path, rows: list[list[str]], separator: str, skip: int) -> None:
    for number, row in enumerate(rows[1:], start=skip + 2):
        if len(row) > len(rows[0]) and any(cell.strip() for cell in row[len(rows[0]) :]):
            raise LogError(
                f"Line {number} of {path} has {len(row)} cells under {len(rows[0])} column names.",
                expected=f"as many cells as names, separated by '{separator}'",
                remedy="Decimal commas cannot be told from separating commas: export with ';' or decimal points.",
            )


def _decimal_comma(rows: list[list[str]]) -> bool:
    cells = [cell.strip() for row in rows for cell in row if "," in cell]
    if not cells:
        return False
    commas = sum(bool(_COMMA_NUMBER.fullmatch(cell)) for cell in cells)
    points = sum(bool(_POINT_NUMBER.fullmatch(cell.strip())) for row in rows for cell in row)
    return commas > points
