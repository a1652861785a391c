"""Read delimited text as controllers and spreadsheets write it: any separator, decimal commas, odd encodings.

First comes how a file is written: encoding, separator, decimal commas, lines before the header, a cut-off end. Then the
quick way parses numbers while scanning. Whatever it cannot parse is read again as text, cell by cell, and every cell
that is no number becomes null and is counted; people write 1234.5, 1234,5, 1.234,5 and 1'234.5.
"""

import csv
import io
import mmap
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

import polars as pl

from crossfeed.errors import LogError
from crossfeed.files import storage_error
from crossfeed.logs.declaration import NativeColumn
from crossfeed.logs.files import match_columns

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


# How loggers write "no value"; these are empty cells, not text.
EMPTY = ("", "null", "none", "na", "n/a", "nan", "-", "--", "---", "#n/a")
# A cell that can only have grouped thousands is the proof that lets "2.000" in the same column mean two thousand.
_DOTS, _PROVEN_DOTS = r"^[-+]?\d{1,3}(?:\.\d{3})+(?:,\d*)?$", r"^[-+]?\d{1,3}(?:\.\d{3})+,\d+$"
_COMMAS, _PROVEN_COMMAS = r"^[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?$", r"^[-+]?\d{1,3}(?:,\d{3})+\.\d+$"
_BLANKS = r"^[-+]?\d{1,3}(?:[ \x{00A0}\x{202F}'’]\d{3})+(?:[.,]\d*)?$"


def read_log(
    path: Path,
    columns: Sequence[NativeColumn],
    numbers: Sequence[str] = (),
    texts: Sequence[str] = (),
    dialect: Dialect | None = None,
) -> tuple[pl.DataFrame, dict[str, int]]:
    """One log file: declared columns under their channel's name, further ones under `@` and their own; the repairs."""
    dialect = dialect or sniff(path)
    native_name = match_columns(dialect.header, [*(column.native for column in columns), *numbers, *texts], str(path))
    as_numbers = {column.channel: native_name[column.native] for column in columns}
    as_numbers |= {f"@{name}": native_name[name] for name in numbers}
    as_texts = {f"@{name}": native_name[name] for name in texts}
    _refuse_unclosed_quote(path, dialect)
    frame, repairs = _read_quickly(path, dialect, as_numbers, as_texts), dict[str, int]()
    if frame is None:
        frame, repairs = _read_as_text(path, dialect, as_numbers, as_texts)
    if dialect.cut_short and frame.height:
        frame = frame.head(-1)
        repairs["last line cut short, dropped"] = 1
    if frame.is_empty():
        raise LogError(f"{path} has a header but no rows.", remedy="Fetch or export the file again, or remove it.")
    return frame, repairs


def _read_quickly(
    path: Path, dialect: Dialect, numbers: Mapping[str, str], texts: Mapping[str, str]
) -> pl.DataFrame | None:
    """Columns (new name -> name in the file) parsed while scanning; None where that cannot be done."""
    if dialect.encoding != "utf-8" or (dialect.decimal_comma and dialect.separator == ","):
        return None
    kinds = {name: pl.Float64() for name in numbers.values()} | {name: pl.String() for name in texts.values()}
    try:
        rows = pl.scan_csv(
            path,
            separator=dialect.separator,
            schema=kinds,
            extra_columns="ignore",
            decimal_comma=dialect.decimal_comma,
            skip_lines=dialect.skip,
            glob=False,
        )
        floats = (pl.col(name).cast(pl.Float64).alias(new) for new, name in numbers.items())
        return rows.select(*floats, *(pl.col(name).alias(new) for new, name in texts.items())).collect()
    except pl.exceptions.PolarsError:
        return None


def read_whole(path: Path, fewest: int = 2, numeric_share: float = 1.0) -> pl.DataFrame:
    """Every column of a file: of text, numbers where so many of its cells are numbers or empty; of Parquet as it is."""
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            return pl.read_parquet(path, glob=False)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise LogError(f"{path} cannot be read as Parquet: {error}", expected="a whole Parquet file") from error
    dialect = sniff(path, fewest=fewest)
    _refuse_unclosed_quote(path, dialect)
    frame, _ = _text_frame(path, dialect)
    columns = []
    for column in frame:
        numbers = parse_numbers(column, dialect.decimal_comma or dialect.separator != ",", dialect.decimal_comma)
        text = numbers.bad.sum() > (1.0 - numeric_share) * len(column)
        columns.append(column if text else numbers.values.alias(column.name))
    return frame.with_columns(columns)


def _text_frame(path: Path, dialect: Dialect, columns: list[str] | None = None) -> tuple[pl.DataFrame, str]:
    """The cells of a file as text, and the encoding that could read all of it."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise storage_error("Reading", path, error) from error
    encoding = dialect.encoding
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        encoding = "latin-1"
        text = raw.decode(encoding)
    try:
        frame = pl.read_csv(
            text.lstrip("\ufeff").encode(),
            separator=dialect.separator,
            columns=columns,
            infer_schema=False,
            truncate_ragged_lines=True,
            skip_lines=dialect.skip,
        )
    except pl.exceptions.PolarsError as error:
        raise LogError(
            f"{path} cannot be read as a table under the names {', '.join(dialect.header[:8])}.",
            expected=f"rows of cells separated by '{dialect.separator}' under one header line",
            remedy="Open the file in a text editor, look for damaged lines, and export it again.",
        ) from error
    return frame, encoding


def _refuse_unclosed_quote(path: Path, dialect: Dialect) -> None:
    """A quote that is opened and never closed swallows every row after it."""
    try:
        with path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(b'"') < 0 or content[:].count(b'"') % 2 == 0:
                return
    except (OSError, ValueError) as error:
        raise storage_error("Reading", path, OSError(str(error))) from error
    begin = 0
    with path.open(encoding=dialect.encoding, errors="replace", newline="") as lines:
        rows = csv.reader(lines, delimiter=dialect.separator)
        try:
            while True:
                line = rows.line_num + 1
                next(rows)
                begin = line
        except (StopIteration, csv.Error):
            pass
    raise LogError(
        f"A quote that opens in line {begin} of {path} is never closed.",
        expected="quotes in pairs, on the same line",
        remedy="Remove the quote from that line, or export the log again.",
    )


def _read_as_text(
    path: Path, dialect: Dialect, numbers: Mapping[str, str], texts: Mapping[str, str]
) -> tuple[pl.DataFrame, dict[str, int]]:
    repairs: dict[str, int] = {}
    wanted = {**numbers, **texts}
    frame, encoding = _text_frame(path, dialect, list(dict.fromkeys(wanted.values())))
    if encoding != "utf-8":
        repairs[f"file read as {encoding}"] = 1
    frame = frame.select(pl.col(name).alias(new) for new, name in wanted.items())
    for name, native in numbers.items():
        parsed = parse_numbers(frame[name], dialect.decimal_comma or dialect.separator != ",", dialect.decimal_comma)
        _refuse_only_text(parsed.bad, frame[name], parsed.values, native, path)
        if parsed.late_commas:
            repairs[f"{name}: decimal comma among decimal points"] = parsed.late_commas
        if parsed.grouped:
            repairs[f"{name}: signs between thousands removed"] = parsed.grouped
        if parsed.bad.any():
            repairs[f"{name}: text in a numeric column"] = int(parsed.bad.sum())
        frame = frame.with_columns(parsed.values.alias(name))
    return frame, repairs


def _refuse_only_text(bad: pl.Series, cells: pl.Series, values: pl.Series, native: str, path: Path) -> None:
    """A column without a single number is another column than the one that was meant."""
    if bad.any() and values.null_count() == len(values):
        raise LogError(
            f"No entry of the column '{native.strip()}' in {path} is a number; the first is "
            f"'{cells.filter(bad)[0][:60]}'.",
            expected="numbers such as 1234.5 or 1234,5",
            remedy="Name another column, or drop this one; a time that is text has a 'format' instead of a 'unit'.",
        )


class Numbers(NamedTuple):
    """The values, how many cells had a late decimal comma or grouped thousands, which cells are no numbers."""

    values: pl.Series
    late_commas: int
    grouped: int
    bad: pl.Series


def parse_numbers(cells: pl.Series, commas: bool, expected_commas: bool) -> Numbers:
    """Read a column; `commas` says that a comma may be the decimal sign, `expected_commas` that it is."""
    texts = cells.str.strip_chars()
    values = texts.cast(pl.Float64, strict=False)
    grouped = late = 0
    if values.null_count() > texts.null_count():
        plain, grouped = _without_groups(texts)
        values = plain.cast(pl.Float64, strict=False)
        if commas:
            decimal = plain.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
            late = 0 if expected_commas else int((values.is_null() & decimal.is_not_null()).sum())
            values = values.zip_with(values.is_not_null(), decimal)
    bad = values.is_null() & ~texts.fill_null("").str.to_lowercase().is_in(EMPTY)
    return Numbers(values, late, grouped, bad)


def _without_groups(texts: pl.Series) -> tuple[pl.Series, int]:
    """The cells without the signs between thousands, and how many had some."""
    dots, commas = bool(texts.str.contains(_PROVEN_DOTS).any()), bool(texts.str.contains(_PROVEN_COMMAS).any())
    never = pl.repeat(False, len(texts), eager=True)
    dotted = texts.str.contains(_DOTS).fill_null(False) if dots and not commas else never
    comma = texts.str.contains(_COMMAS).fill_null(False) if commas and not dots else never
    blank = texts.str.contains(_BLANKS).fill_null(False)
    plain = texts.zip_with(~dotted, texts.str.replace_all(".", "", literal=True))
    plain = plain.zip_with(~comma, texts.str.replace_all(",", "", literal=True))
    plain = plain.zip_with(~blank, texts.str.replace_all(r"[ \x{00A0}\x{202F}'’]", ""))
    return plain, int((dotted | comma | blank).sum())
