"""Cells of text as numbers, as people of several countries write them: 1234.5, 1234,5, 1.234,5, 1,234.5, 1'234.5."""

from typing import NamedTuple

import polars as pl

# How loggers write "no value"; these are empty cells, not text.
EMPTY = ("", "null", "none", "na", "n/a", "nan", "-", "--", "---", "#n/a")
# A cell that can only have grouped thousands is the proof that lets "2.000" in the same column mean two thousand.
_DOTS, _PROVEN_DOTS = r"^[-+]?\d{1,3}(?:\.\d{3})+(?:,\d*)?$", r"^[-+]?\d{1,3}(?:\.\d{3})+,\d+$"
_COMMAS, _PROVEN_COMMAS = r"^[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?$", r"^[-+]?\d{1,3}(?:,\d{3})+\.\d+$"
_BLANKS = r"^[-+]?\d{1,3}(?:[ \x{00A0}\x{202F}'’]\d{3})+(?:[.,]\d*)?$"


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
