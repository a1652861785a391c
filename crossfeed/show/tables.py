"""The one table that every result gives, and how the numbers in it are written."""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from crossfeed.configuration import recorded
from crossfeed.files import atomic_file, plain, write_sealed

if TYPE_CHECKING:
    from crossfeed.show.figures import Figure

# How a column is written; an interval is a mapping with estimate, low and high, or with estimate and spread.
CellFormat = Literal["text", "number", "count", "share", "interval", "seconds", "hash", "light"]
MISSING = "–"
LIGHTS = {"good": "● yes", "fair": "◐ with care", "bad": "○ no", "unknown": "· not known"}
_FROM_THE_LEFT = ("text", "light", "hash")
_NAMED = 6  # names in a sentence


@dataclass(frozen=True)
class Column:
    """One column of a table; `title` may carry a unit, `latex` is the heading in the paper's layout."""

    key: str
    title: str
    format: CellFormat = "number"
    latex: str = ""

    @property
    def alignment(self) -> Literal["left", "right"]:
        """Words are read from the left, numbers stand below each other."""
        return "left" if self.format in _FROM_THE_LEFT else "right"


@dataclass(frozen=True)
class ResultTable:
    """A table of raw values; `name` is its file name, rows are keyed by the columns' keys, remarks stand below."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    label: str = ""
    # Columns in which the smallest value is the best one and is set in bold.
    lowest: tuple[str, ...] = ()
    # A table too long for a first look is folded away on a page.
    folded: bool = False
    remarks: tuple[str, ...] = ()

    def best(self, column: Column) -> Any:
        """The smallest value of a column in which small is good."""
        if column.key not in self.lowest:
            return None
        values = [estimate(row.get(column.key)) for row in self.rows]
        known = [value for value in values if isinstance(value, int | float) and math.isfinite(value)]
        return min(known) if len(set(known)) > 1 else None

    def is_best(self, column: Column, row: Mapping[str, Any]) -> bool:
        """Whether this cell is marked."""
        best = self.best(column)
        return best is not None and estimate(row.get(column.key)) == best


class ShownByTables:
    """A result with tables and figures: as text where it is printed, as HTML in a notebook."""

    __slots__ = ()

    def tables(self) -> Sequence[ResultTable]:
        """Everything the result has to say in numbers, the most important first."""
        raise NotImplementedError

    def figures(self) -> "Sequence[Figure]":
        """The pictures of the result; none where people would rather read."""
        return ()

    def _first_look(self) -> Sequence[ResultTable]:
        """The tables of a print or a notebook cell, where all of them would be too many."""
        return self.tables()

    def __repr__(self) -> str:
        from crossfeed.show.formats import text

        return "\n\n".join(text(table) for table in self._first_look())

    def _repr_html_(self) -> str:
        from crossfeed.show.formats import notebook_html

        return "".join(notebook_html(table) for table in self._first_look())


class RecordedResult(ShownByTables):
    """A result that a command writes as JSON and others read back, field by field; what is None is not written."""

    __slots__ = ()
    # What it is, the commands that write it, and how to make it anew: for the error about content that is none.
    RECORD: ClassVar[tuple[str, str, str]]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        content = {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}  # type: ignore[attr-defined]
        return {name: value for name, value in content.items() if value is not None}

    @classmethod
    def from_dict(cls, content: Any, origin: str = "The result") -> Self:
        """The very result that `to_dict` wrote; content that is none is refused."""
        return recorded(cls, content, origin, *cls.RECORD)

    def write_as(self, folder: Path, name: str, rows: Sequence[Mapping[str, Any]], document: str) -> None:
        """Save JSON, the flat rows as CSV and the document as Markdown, each whole or not there."""
        write_sealed(folder / f"{name}.json", self.to_dict())
        with atomic_file(folder / f"{name}.md") as temporary:
            temporary.write_text(document, encoding="utf-8")
        with (
            atomic_file(folder / f"{name}.csv") as temporary,
            temporary.open("w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, list(rows[0]) if rows else [])
            writer.writeheader()
            writer.writerows(rows)


def plain_table(
    caption: str, heads: Sequence[str], rows: Iterable[Iterable[Any]], remarks: Sequence[str] = (), words: int = 1,
    name: str = "",
) -> ResultTable:  # fmt: skip
    """A table from rows in the order of the heads; the first `words` columns hold words, the others numbers."""
    keys = [head if heads.count(head) == 1 else f"{head} {at}".strip() for at, head in enumerate(heads)]
    found = tuple(
        Column(key, head, "text" if at < words else "number") for at, (key, head) in enumerate(zip(keys, heads))
    )
    cells = tuple({column.key: cell for column, cell in zip(found, row, strict=True)} for row in rows)
    return ResultTable(name or caption, caption, found, cells, remarks=tuple(remarks))


def columns(*given: Sequence[str]) -> tuple[Column, ...]:
    """Columns from (key, title, format, latex) with the usual defaults."""
    return tuple(Column(*one) for one in given)  # type: ignore[arg-type]


def filled(heads: tuple[Column, ...], rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Only the columns of which any row says something."""
    return tuple(column for column in heads if any(row.get(column.key) is not None for row in rows))


def estimate(value: Any) -> Any:
    """The number itself, also of an interval."""
    return value.get("estimate") if isinstance(value, Mapping) else value


def number(value: float | int | None) -> str:
    """Three digits after the point between a thousandth and a thousand, else three digits that matter."""
    if value is None or isinstance(value, bool) or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    if 0.001 <= abs(value) < 1000:
        digits = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
        return f"{value:.{digits}f}".replace("-", "−")
    return f"{value:,.0f}".replace("-", "−") if 1000 <= abs(value) < 1e6 else f"{value:.2e}".replace("-", "−")


def significant(value: float, sign: str = "") -> str:
    """Three digits that matter, as a person writes them: 8,000 and not 8e+03, 15.0 and not 15."""
    if 999.5 <= abs(value) < 1e7:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}#.3g}".removesuffix(".") if value else f"{value:{sign}g}"


def share(value: float | None) -> str:
    """A share as per cent."""
    percent = math.nan if value is None else 100 * value
    return f"{percent:.1f} %" if math.isfinite(percent) else MISSING


def seconds(value: float | None) -> str:
    """A duration in the unit people use for it."""
    if value is None:
        return MISSING
    if value < 0.1:
        return f"{1000 * value:.1f} ms"
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def interval(value: Mapping[str, Any] | None) -> str:
    """An estimate with its bounds, or with its spread over seeds; alone where there are too few runs for any."""
    return written(value, "interval")


def interval_parts(value: Mapping[str, Any] | None, write: Callable[[Any], str]) -> tuple[str, str]:
    """The same in two parts, for two lines of a narrow cell: the estimate, and its bounds or its spread."""
    if value is None or value.get("estimate") is None:
        return MISSING, ""
    middle = write(value["estimate"])

    def alike(other: float) -> str:
        return _alike(other, middle) if write is number else write(other)

    if value.get("spread") is not None:
        return middle, f"± {alike(value['spread'])}"
    if value.get("low") is None or value.get("high") is None:
        return middle, ""
    return middle, f"{alike(value['low'])} to {alike(value['high'])}"


def _alike(value: float, neighbour: str) -> str:
    """A bound or a spread with as many decimals as the estimate beside it; a far larger one is written as usual."""
    decimals = len(neighbour.partition(".")[2])
    if "e" in neighbour or not decimals or not math.isfinite(value) or abs(value) >= 1000:
        return number(value)
    return f"{value:.{decimals}f}".replace("-", "−")


def written(value: Any, cell_format: CellFormat = "number") -> str:
    """One cell as text."""
    said, doubt = cell_parts(value, cell_format)
    return said if not doubt else f"{said} {doubt}" if doubt.startswith("±") else f"{said} ({doubt})"


def cell_parts(value: Any, cell_format: CellFormat = "number") -> tuple[str, str]:
    """One cell in two parts: what it says, and the bounds or the spread of an interval."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return MISSING, ""
    if cell_format == "light":
        return LIGHTS.get(str(value), str(value)), ""
    if cell_format == "hash":
        return str(value)[:12] or MISSING, ""
    if isinstance(value, Mapping):
        return interval_parts(value, share if cell_format == "share" else number)
    if cell_format == "text" or isinstance(value, str):
        return str(value), ""
    if cell_format == "count":
        return f"{value:,.0f}", ""
    return {"share": share, "seconds": seconds}.get(cell_format, number)(value), ""


def named(names: Sequence[str], noun: str = "machines") -> str:
    """A few names as they are; many are counted, since nobody reads hundreds."""
    return ", ".join(names) if len(names) <= _NAMED else f"{len(names)} {noun}"


def plural(amount: int, noun: str) -> str:
    """One run, two runs; one entry, two entries."""
    several = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{amount:,} {noun if amount == 1 else several}"
