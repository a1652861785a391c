"""Every difference between the paper, its authors' public code and this package that no table of settings shows.

The rows are data (differences.yaml): docs/method.md holds their rendering between two marks, and each has a test named
after it in
tests/study/test_differences.py that runs the code. `python -m crossfeed.study.differences docs/method.md` renders anew.
"""

import sys
from dataclasses import astuple, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import yaml

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


@cache
def differences() -> tuple[Difference, ...]:
    """The rows of differences.yaml, in its order."""
    content = files("crossfeed.study").joinpath("differences.yaml").read_text(encoding="utf-8")
    return tuple(Difference(**row) for row in yaml.safe_load(content))


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
    document = Path(sys.argv[1])
    document.write_text(rendered(document.read_text(encoding="utf-8")), encoding="utf-8")
