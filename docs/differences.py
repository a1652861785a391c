"""The differences between the paper, its authors' public code and this package that no table of settings shows.

The rows are data (differences.yaml): method.md holds their rendering between two marks, and each has a test named after
it in tests/study/test_differences.py that runs the code. `python docs/differences.py` renders anew.
"""

from dataclasses import astuple, dataclass
from pathlib import Path

import yaml

ROWS, PAGE = Path(__file__).with_suffix(".yaml"), Path(__file__).with_name("method.md")
BEGIN, END = "<!-- differences: begin -->", "<!-- differences: end -->"
HEADS = ("item", "paper", "its authors' code", "`paper` here", "`mended` and `crossfeed`", "where")


@dataclass(frozen=True, slots=True)
class Difference:
    """One row: what is said, what the authors run, what both protocols do; `where` is the name that does it."""

    item: str
    paper: str
    authors_code: str
    under_paper: str
    under_crossfeed: str
    where: str


def differences() -> tuple[Difference, ...]:
    """The rows of differences.yaml, in its order."""
    return tuple(Difference(**row) for row in yaml.safe_load(ROWS.read_text(encoding="utf-8")))


def table() -> str:
    """The rows as a Markdown table."""
    rows = [HEADS, *((*astuple(row)[:-1], f"`{row.where}`") for row in differences())]
    head, *lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([head, "|" + "---|" * len(HEADS), *lines])


def rendered(page: str) -> str:
    """The page with the table between its marks made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
