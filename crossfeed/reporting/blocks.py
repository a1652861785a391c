"""What a report is made of: sections that hold sentences, tables and figures, before anyone decides how they look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from crossfeed.evaluation.verdict import ChannelVerdict
from crossfeed.show.figures import Figure
from crossfeed.show.tables import ResultTable

Tone = Literal["plain", "good", "fair", "bad", "next"]


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


Block = ResultTable | Figure | FigureChoice | Note | Listing


@dataclass(frozen=True)
class Section:
    """One heading of the report with a sentence that says what to see."""

    anchor: str
    title: str
    lead: str
    blocks: tuple[Block, ...] = ()

    def tables(self) -> tuple[ResultTable, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ResultTable))

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


def section(anchor: str, title: str, lead: str, blocks: Sequence[Block]) -> list[Section]:
    """One section, or none where there is nothing to show."""
    return [Section(anchor, title, lead, tuple(blocks))] if blocks else []
