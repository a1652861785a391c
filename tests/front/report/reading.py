"""How tests look at a report: its document, its tables, its page."""

import csv
from pathlib import Path

from crossfeed.front.report.artefacts import gather
from crossfeed.front.report.page import Document, page
from crossfeed.front.report.report import compose
from crossfeed.show.formats import write_csv
from crossfeed.show.tables import ResultTable


def report_on(place: Path) -> tuple[Document, set[str], str]:
    """The document of a place, the sections it has, and its page; no files are written."""
    document = compose(gather(place))
    return document, {section.anchor for section in document.sections}, page(document)


def find_table(document: Document, name: str) -> ResultTable:
    """One table of a document, with its caption and raw values."""
    return next(grid for section in document.sections for grid in section.tables() if grid.name == name)


def table_of(document: Document, name: str, folder: Path) -> list[dict[str, str]]:
    """One table of a document as its CSV file gives it."""
    table = next(table for section in document.sections for table in section.tables() if table.name == name)
    write_csv(table, folder / f"{name}.csv")
    return rows_of(folder / f"{name}.csv")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
