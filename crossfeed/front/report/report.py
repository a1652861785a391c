"""Write a report: one HTML file, and every table and figure of it as files of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import yaml

from crossfeed.files import __version__, atomic_file
from crossfeed.front.report.artefacts import Artefacts
from crossfeed.front.report.page import Block, Document, Section, page
from crossfeed.front.report.sections import beside, data, results, study, training
from crossfeed.front.report.sections.verdict import verdict
from crossfeed.show.drawing import draw
from crossfeed.show.figures import save_figure
from crossfeed.show.formats import write_csv, write_latex

# Title and lead of every section in their order, and what each holds: no artefacts, no blocks, no section.
SECTIONS = yaml.safe_load(files("crossfeed.front.report").joinpath("sections.yaml").read_text(encoding="utf-8"))
PARTS: dict[str, Callable[[Artefacts], Sequence[Block]]] = {
    "data": data.data, "split": data.split, "training": training.training, "gate": training.gate,
    "ranking": study.ranking, "ledger": study.ledger, "results": results.errors, "details": results.details,
    "calibration": results.calibration, "commands": results.commands, "adaptation": beside.adaptation,
    "forecasts": results.forecasts, "ablation": study.ablation, "contrasts": study.contrasts,
    "comparison": beside.comparison, "curve": beside.curve, "what-if": beside.what_if, "decisions": beside.decisions,
    "robustness": results.robustness, "timing": data.timing, "reproduce": data.reproduce,
}  # fmt: skip
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


def write_document(document: Document, folder: Path) -> WrittenReport:
    """Write report.html into a folder, and every table and figure beside it."""
    report = folder / "report.html"
    with atomic_file(report) as temporary:
        temporary.write_text(page(document), encoding="utf-8")
    tables = [table for section in document.sections for table in section.tables()]
    figures = [figure for section in document.sections for figure in section.figures()]
    written, pictures = list[Path](), list[Path]()
    for table in tables:
        for write, ending in ((write_csv, "csv"), (write_latex, "tex")):
            written.append(folder / "tables" / f"{_file_name(table.name)}.{ending}")
            write(table, written[-1])
    for figure in figures:
        pictures.append(folder / "figures" / f"{_file_name(figure.name)}.png")
        save_figure(draw(figure), pictures[-1])
    anchors = tuple(section.anchor for section in document.sections)
    return WrittenReport(report, tuple(written), tuple(pictures), anchors, document.verdict.answer)


def compose(found: Artefacts) -> Document:
    """The report as data."""
    blocks = {anchor: tuple(PARTS[anchor](found)) for anchor in SECTIONS}
    sections = tuple(Section(anchor, **SECTIONS[anchor], blocks=shown) for anchor, shown in blocks.items() if shown)
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


def _file_name(name: str) -> str:
    """Names of channels and ablations come from users; a file name keeps only what every disk takes."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name)
