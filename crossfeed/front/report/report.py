"""Write a report: one HTML file, and every table and figure of it as files of their own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from crossfeed.files import __version__, atomic_file
from crossfeed.front.report.artefacts import Artefacts
from crossfeed.front.report.page import Document, Drawings, DrawnFigure, Section, draw_figures, page
from crossfeed.front.report.sections import beside, data, results, study, training
from crossfeed.front.report.sections import data as reproduce
from crossfeed.front.report.sections.verdict import verdict
from crossfeed.show.formats import write_csv, write_latex

# The order of the report; a part whose artefacts are missing gives no section.
PARTS: tuple[Callable[[Artefacts], list[Section]], ...] = (
    data.data, training.training, training.gate, study.ranking, study.ledger, results.errors, results.details,
    results.calibration, results.commands, beside.adaptation, results.forecasts, study.ablation, study.contrasts,
    beside.comparison, beside.curve, beside.what_if, beside.decisions, results.robustness, reproduce.reproduce,
)  # fmt: skip

_FILES_AT_ONCE = 4  # files on their way to the disk
SIMULATED = (
    "The machines of this report are simulated: a physics model wrote their logs in the formats of two public data "
    "sets, whose names they bear (thws, joanneum). It shows how the work goes; about the real machines it says nothing."
)


@dataclass(frozen=True)
class WrittenReport:
    """What a report consists of on disk, and its verdict in one sentence."""

    report: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    sections: tuple[str, ...]
    answer: str


def write_report(found: Artefacts, out: Path | str | None = None) -> WrittenReport:
    """Report on what was gathered about a study or a run; `out` is `report` in its folder by default."""
    return write_document(compose(found), Path(out) if out is not None else found.folder / "report")


def write_document(document: Document, out_folder: Path) -> WrittenReport:
    """Write report.html into a folder, and every table and figure beside it."""
    report = out_folder / "report.html"
    with atomic_file(report) as temporary:
        drawings = draw_figures(document, with_files=True)
        temporary.write_text(page(document, drawings), encoding="utf-8")
    tables, figures = _write_files(document, drawings, out_folder)
    anchors = tuple(section.anchor for section in document.sections)
    return WrittenReport(report, tables, figures, anchors, document.verdict.answer)


def compose(found: Artefacts) -> Document:
    """The report as data."""
    sections = tuple(section for part in PARTS for section in part(found))
    machines, protocol = "", found.study.protocol if found.study else None
    if protocol is not None:
        sources = [name for source in protocol["sources"] for name in source["machines"]]
        targets = [name for sealed in protocol["vault"] for name in sealed["machines"]]
        how = "simulated " if found.simulated else ""
        machines = f"learned on {how}{', '.join(sources)}"
        machines += f", judged on {how}{', '.join(targets)}" if targets else ""
    elif found.run is not None:
        machines = f"learned on {', '.join(found.run.summary.get('data', {}).get('machines', [])) or 'one machine'}"
    recorded = "Study" if found.study is not None else "Training run"
    facts = {
        "Made by crossfeed": __version__,
        "on": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **({"ledger head": found.study.verification.head} if found.study is not None else {}),
    }
    folder = found.folder.resolve()
    name = folder.parent.name if folder.name in ("study", "run") else folder.name
    return Document(
        f"{recorded} {name}", machines, verdict(found), sections, facts, SIMULATED if found.simulated else ""
    )


def _write_files(document: Document, drawings: Drawings, folder: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Tables and figures as files, several at a time: each waits for the disk to have it whole."""
    shown = [table for section in document.sections for table in section.tables()]
    figures = [figure for section in document.sections for figure in section.figures()]
    tables = {
        folder / "tables" / f"{_file_name(table.name)}.{ending}": partial(write, table)
        for table in shown
        for write, ending in ((write_csv, "csv"), (write_latex, "tex"))
    }
    drawn = {
        folder / "figures" / f"{_file_name(figure.name)}.png": partial(_write_picture, drawings[figure.name])
        for figure in figures
    }
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        list(pool.map(lambda file: file[1](file[0]), [*tables.items(), *drawn.items()]))
    return tuple(tables), tuple(drawn)


def _write_picture(figure: DrawnFigure, path: Path) -> None:
    with atomic_file(path) as temporary:
        temporary.write_bytes(figure.file or b"")


def _file_name(name: str) -> str:
    """Names of channels and ablations come from users; a file name keeps only what every disk takes."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name)
