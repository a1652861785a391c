"""What everything on a terminal shares: one way to print a table, one JSON document, one hint."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from crossfeed.files import plain
from crossfeed.progress import console, output
from crossfeed.show.formats import rich_table
from crossfeed.show.tables import ResultTable, plain_table


def show(*tables: ResultTable, boxed: bool = True) -> None:
    """Tables on the standard output, each with what has to be said beside it."""
    for table in tables:
        if table.rows:
            output().print(rich_table(table, output().width, boxed))
        for remark in table.remarks:
            say(f"- {remark}")


def print_table(title: str, names: Sequence[str], rows: Iterable[Iterable[Any]], words: int = 1) -> None:
    """A table without a box, the first columns hold words."""
    show(plain_table(title, names, rows, words=words), boxed=False)


def say(*lines: str) -> None:
    """Sentences of a result, one a line, as they are."""
    for line in lines:
        output().print(line, markup=False, soft_wrap=True, highlight=False)


def say_absent(absent: Mapping[str, float]) -> None:
    """Which commands a table lacks, and what they are taken for."""
    for name, value in absent.items():
        note(f"the table has no {name}; it is taken as {value:g} throughout")


def note(text: str, kind: str = "note") -> None:
    """Something to know before the numbers are believed."""
    output().print(f"[yellow]{kind}:[/]", end=" ")
    say(text)


def print_json(content: Any) -> None:
    """One JSON document on standard output and nothing else."""
    print(json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False))


def print_result(content: Any, as_json: bool, show: Callable[[], None]) -> None:
    """A result as one JSON document where that was asked for, else as `show` prints it for people."""
    if as_json:
        print_json(content)
    else:
        show()


def next_step(*words: str | Path) -> None:
    """The command that usually comes next, said beside the results and never among them."""
    command = " ".join(str(word) if str(word).isupper() else quote(str(word)) for word in words)
    console().print(f"next: crossfeed {command}", markup=False, style="dim", soft_wrap=True)
