"""Read delimited text as controllers and spreadsheets write it: any separator, decimal commas, odd encodings.

The quick way parses numbers while scanning. Whatever it cannot parse is read again as text, cell by cell, and every
cell that is no number becomes null and is counted.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from crossfeed.atomic import storage_error
from crossfeed.errors import LogError
from crossfeed.machines.declaration import Column
from crossfeed.machines.files import match_columns

_SAMPLE_BYTES = 1 << 16
_SEPARATORS = (",", ";", "\t", "|")
_COMMA_NUMBER = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
_POINT_NUMBER = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
# How loggers write "no value"; these are empty cells, not text.
_EMPTY = ("", "null", "none", "na", "n/a", "nan", "-", "#n/a")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one file is written."""

    encoding: str
    separator: str
    decimal_comma: bool
    header: tuple[str, ...]
    cut_short: bool


def sniff(path: Path, separator: str | None = None, decimal: str | None = None) -> Dialect:
    """Look at the beginning and the end of a file and say how it is written."""
    try:
        with path.open("rb") as handle:
            head = handle.read(_SAMPLE_BYTES)
            size = handle.seek(0, io.SEEK_END)
            handle.seek(max(0, size - _SAMPLE_BYTES))
            tail = handle.read()
    except OSError as error:
        raise storage_error("Reading", path, error) from error
    if not head.strip():
        raise LogError(f"{path} is empty.", expected="a header line and rows", remedy="Fetch or export the file again.")
    encoding = _encoding(head)
    lines = head.decode(encoding, errors="replace").lstrip("\ufeff").splitlines()
    whole = lines[:-1] if size > len(head) else lines
    chosen = separator or max(_SEPARATORS, key=lambda mark: whole[0].count(mark))
    rows = [row for row in csv.reader(whole, delimiter=chosen) if row]
    header = tuple(rows[0])
    if len(header) < 2:
        raise LogError(
            f"The first line of {path} has one column: '{whole[0][:80]}'.",
            expected="column names separated by comma, semicolon, tab or bar",
        )
    _refuse_long_rows(path, rows, chosen)
    last = tail.decode(encoding, errors="replace").splitlines()[-1]
    cut_short = not tail.endswith((b"\n", b"\r", b"\x00")) and len(next(csv.reader([last], delimiter=chosen))) < len(
        header
    )
    commas = decimal == "," if decimal else _decimal_comma(rows[1:])
    return Dialect(encoding, chosen, commas, header, cut_short)


def read_delimited(
    path: Path, dialect: Dialect, numbers: Mapping[str, str], texts: Mapping[str, str]
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Read the wanted columns (new name -> name in the file) and count the repairs that were needed."""
    wanted = {**numbers, **texts}
    quick = dialect.encoding == "utf-8" and not (dialect.decimal_comma and dialect.separator == ",")
    repairs: dict[str, int] = {}
    frame: pl.DataFrame | None = None
    if quick:
        kinds = {name: pl.Float64() for name in numbers.values()} | {name: pl.String() for name in texts.values()}
        try:
            frame = (
                pl.scan_csv(
                    path,
                    separator=dialect.separator,
                    schema=kinds,
                    extra_columns="ignore",
                    decimal_comma=dialect.decimal_comma,
                    glob=False,
                )
                .select(
                    *(pl.col(name).cast(pl.Float64).alias(new) for new, name in numbers.items()),
                    *(pl.col(name).alias(new) for new, name in texts.items()),
                )
                .collect()
            )
        except pl.exceptions.PolarsError:
            frame = None
    if frame is None:
        frame, repairs = _read_as_text(path, dialect, wanted, numbers)
    if dialect.cut_short and frame.height:
        frame = frame.head(-1)
        repairs["last line cut short, dropped"] = 1
    return frame, repairs


def _encoding(head: bytes) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        head[: head.rfind(b"\n") + 1 or None].decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def _refuse_long_rows(path: Path, rows: list[list[str]], separator: str) -> None:
    for number, row in enumerate(rows[1:], start=2):
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


def _read_as_text(
    path: Path, dialect: Dialect, wanted: Mapping[str, str], numbers: Mapping[str, str]
) -> tuple[pl.DataFrame, dict[str, int]]:
    raw = path.read_bytes()
    repairs: dict[str, int] = {}
    encoding = dialect.encoding
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        encoding = "latin-1"
        text = raw.decode(encoding)
    if encoding != "utf-8":
        repairs[f"file read as {encoding}"] = 1
    try:
        frame = pl.read_csv(
            text.lstrip("\ufeff").encode(),
            separator=dialect.separator,
            columns=list(dict.fromkeys(wanted.values())),
            infer_schema=False,
            truncate_ragged_lines=True,
        )
    except pl.exceptions.PolarsError as error:
        raise LogError(f"{path} cannot be read as a table: {error}", expected="rows under one header line") from error
    frame = frame.select(pl.col(name).alias(new) for new, name in wanted.items())
    for name in numbers:
        cells = frame[name].str.strip_chars()
        values = cells.cast(pl.Float64, strict=False)
        if dialect.decimal_comma or dialect.separator != ",":
            commas = cells.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
            late = int((values.is_null() & commas.is_not_null()).sum())
            if late and not dialect.decimal_comma:
                repairs[f"{name}: decimal comma among decimal points"] = late
            values = values.zip_with(values.is_not_null(), commas)
        bad = int((values.is_null() & ~cells.fill_null("").str.to_lowercase().is_in(_EMPTY)).sum())
        if bad:
            repairs[f"{name}: text in a numeric column"] = bad
        frame = frame.with_columns(values.alias(name))
    return frame, repairs


def read_log(
    path: Path,
    columns: Sequence[Column],
    numbers: Sequence[str] = (),
    texts: Sequence[str] = (),
    dialect: Dialect | None = None,
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Read one log file: declared columns under their channel's name, further ones under `@` and their own name."""
    dialect = dialect or sniff(path)
    found = match_columns(dialect.header, [*(column.native for column in columns), *numbers, *texts], str(path))
    frame, repairs = read_delimited(
        path,
        dialect,
        {column.channel: found[column.native] for column in columns} | {f"@{name}": found[name] for name in numbers},
        {f"@{name}": found[name] for name in texts},
    )
    if frame.is_empty():
        raise LogError(f"{path} has a header but no rows.", remedy="Fetch or export the file again, or remove it.")
    return frame, repairs
