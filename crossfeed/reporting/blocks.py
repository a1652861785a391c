"""What a report is made of: sections that hold sentences, tables and figures, before anyone decides how they look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from crossfeed.evaluation.verdict import ChannelVerdict
from crossfeed.reporting.panels import Panel

# How a column is written; an interval is a mapping with estimate, low and high, or with estimate and spread.
CellFormat = Literal["text", "number", "count", "share", "interval", "seconds", "hash", "light"]
Tone = Literal["plain", "good", "fair", "bad", "next"]


@dataclass(frozen=True)
class Column:
    """One column of a table; `title` may carry a unit, `latex` is the heading in the paper's layout."""

    key: str
    title: str
    format: CellFormat = "number"
    latex: str = ""


@dataclass(frozen=True)
class ReportTable:
    """A table of raw values; `name` is its file name, rows are keyed by the columns' keys."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    label: str = ""
    # Columns in which the smallest value is the best one and is set in bold.
    lowest: tuple[str, ...] = ()
    # A table too long for a first look is folded away on screen.
    folded: bool = False

    def best(self, column: Column) -> Any:
        """The smallest value of a column in which small is good."""
        if column.key not in self.lowest:
            return None
        values = [estimate(row.get(column.key)) for row in self.rows]
        known = [value for value in values if isinstance(value, int | float)]
        return min(known) if len(set(known)) > 1 else None


@dataclass(frozen=True)
class Figure:
    """Small panels under one caption; `legend` names the series, `stacked` panels stand one above the other.

    Where the first panel is the main one, the others stand around it.
    """

    name: str
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[tuple[str, int, str], ...] = ()
    stacked: int = 1
    first_is_main: bool = False


@dataclass(frozen=True)
class FigureChoice:
    """Figures of which one is shown at a time, picked by name."""

    name: str
    label: str
    options: Mapping[str, Figure]
    first: str


@dataclass(frozen=True)
class Note:
    """A sentence or two; the tone says how it is set off."""

    words: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Listing:
    """Commands to type, as they are."""

    lines: tuple[str, ...]


Block = ReportTable | Figure | FigureChoice | Note | Listing


@dataclass(frozen=True)
class Section:
    """One heading of the report with a sentence that says what to see."""

    anchor: str
    title: str
    lead: str
    blocks: tuple[Block, ...] = ()

    def grids(self) -> tuple[ReportTable, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ReportTable))

    def figures(self) -> tuple[Figure, ...]:
        """All figures, of choices the one that is shown first."""
        single = [block for block in self.blocks if isinstance(block, Figure)]
        chosen = [block.options[block.first] for block in self.blocks if isinstance(block, FigureChoice)]
        return (*single, *chosen)

    def hidden_figures(self) -> tuple[Figure, ...]:
        """The figures of choices that are not shown first."""
        choices = [block for block in self.blocks if isinstance(block, FigureChoice)]
        return tuple(figure for one in choices for name, figure in one.options.items() if name != one.first)


@dataclass(frozen=True)
class VerdictBox:
    """The box at the top: one answer in plain words, and the lights channel by channel."""

    question: str
    answer: str
    tone: Tone
    sentences: tuple[str, ...]
    lights: tuple[ChannelVerdict, ...] = ()
    next_steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Document:
    """A whole report, ready to be written."""

    title: str
    subtitle: str
    verdict: VerdictBox
    sections: tuple[Section, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    # What a reader must know before any number.
    remark: str = ""


def estimate(value: Any) -> Any:
    """The number itself, also of an interval."""
    return value.get("estimate") if isinstance(value, Mapping) else value


def section(anchor: str, title: str, lead: str, blocks: Sequence[Block]) -> list[Section]:
    """One section, or none where there is nothing to show."""
    return [Section(anchor, title, lead, tuple(blocks))] if blocks else []


def filled(heads: tuple[Column, ...], rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Only the columns of which any row says something."""
    return tuple(column for column in heads if any(row.get(column.key) is not None for row in rows))


def columns(*given: Sequence[str]) -> tuple[Column, ...]:
    """Columns from (key, title, format, latex) with the usual defaults."""
    return tuple(Column(*one) for one in given)  # type: ignore[arg-type]
