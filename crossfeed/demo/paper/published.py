"""The numbers that the paper prints, as data, and one of them beside the one just made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import yaml

Verdict = Literal["inside", "outside", "equal", "other", ""]
_SPREAD = re.compile(r"(-?[\d.]+) ± ([\d.]+)")
_INTERVAL = re.compile(r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]")


@dataclass(frozen=True, slots=True)
class Number:
    """A number or a word, with its standard deviation over seeds or the bounds of its interval where it has them."""

    value: float | str | None
    spread: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def printed(cls, content: Any) -> "Number":
        """A number as the paper prints it."""
        text = str(content)
        if found := _SPREAD.fullmatch(text):
            return cls(float(found[1]), spread=float(found[2]))
        if found := _INTERVAL.fullmatch(text):
            return cls(float(found[1]), low=float(found[2]), high=float(found[3]))
        return cls(content)

    def cell(self) -> Any:
        """As a table of a page takes it."""
        if self.spread is not None:
            return {"estimate": self.value, "spread": self.spread}
        if self.low is not None:
            return {"estimate": self.value, "low": self.low, "high": self.high}
        return f"{self.value:,}" if isinstance(self.value, int) else self.value


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One table of the paper: where it stands, and its numbers by row and column."""

    name: str
    where: str
    title: str
    note: str
    labels: Mapping[str, str]
    numbers: Mapping[tuple[str, str], Number]


@dataclass(frozen=True, slots=True)
class ComparedNumber:
    """A published number beside the one just made; `made` is None where this folder has none."""

    row: str
    column: str
    label: str
    published: Number
    made: Number | None

    @property
    def difference(self) -> float | None:
        """Made minus published, of numbers that are measured."""
        if self.made is None or not _measured(self.published) or self.made.value is None:
            return None
        return float(self.made.value) - float(self.published.value)  # type: ignore[arg-type]

    @property
    def verdict(self) -> Verdict:
        """Inside or outside the published spread; counts and words equal or not; empty where no spread is printed."""
        known, made = self.published, self.made
        if made is None or made.value is None:
            return ""
        if not _measured(known):
            return "equal" if made.value == known.value else "other"
        if known.spread is not None:
            return "inside" if abs(self.difference or 0.0) <= known.spread + 1e-12 else "outside"
        if known.low is not None and known.high is not None:
            return "inside" if known.low <= float(made.value) <= known.high else "outside"
        return ""


def published() -> dict[str, PublishedTable]:
    """Every table of the paper that holds numbers, by name."""
    content = yaml.safe_load(files("crossfeed.demo.paper").joinpath("published.yaml").read_text(encoding="utf-8"))
    return {
        name: PublishedTable(
            name, table["where"], table["title"], table.get("note", ""),
            {row: cells["label"] for row, cells in table["rows"].items()},
            {
                (row, column): Number.printed(str(cell) if column == "setting" else cell)
                for row, cells in table["rows"].items()
                for column, cell in cells.items()
                if column != "label"
            },
        )
        for name, table in content.items()
    }  # fmt: skip


def beside(table: PublishedTable, made: Mapping[tuple[str, str], Number]) -> list[ComparedNumber]:
    """The published numbers of a table with what was made of each."""
    return [
        ComparedNumber(row, column, table.labels[row], number, made.get((row, column)))
        for (row, column), number in table.numbers.items()
    ]


def _measured(number: Number) -> bool:
    """Whether a number is measured: counts and words are either equal or not."""
    return isinstance(number.value, float)
