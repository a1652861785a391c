"""The page of the paper: every published number beside the one just made, then the whole report of the study."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crossfeed.configuration import leaves
from crossfeed.demo.chapter import read_note
from crossfeed.demo.paper.made import LIKELIHOOD_CONSTANT, Made, made
from crossfeed.demo.paper.published import ComparedNumber, PublishedTable, beside, published
from crossfeed.demo.paper.settings import LATENT, PaperSettings
from crossfeed.demo.paper.source import ESTIMATE
from crossfeed.demo.selection import LOCK, REFUSAL, RESULT, STUDY, chosen_run, opening
from crossfeed.files import read_sealed, write_sealed
from crossfeed.front.report.artefacts import Artefacts, gather
from crossfeed.front.report.page import Block, Document, Note, Section, VerdictBox
from crossfeed.front.report.report import WrittenReport, compose, write_document
from crossfeed.show.figures import Dot, Dots, Figure
from crossfeed.show.tables import ResultTable, columns, plural
from crossfeed.study.study import Study
from crossfeed.training.loop import spoken

REPORT, NUMBERS = "report.html", "numbers.json"
# How a verdict is called: for simulated logs nothing is ever said to be the paper's.
REAL = {"inside": "reproduced", "equal": "the same", "outside": "outside the spread", "other": "another", "": ""}
PLAYED = REAL | {"inside": "inside the spread"}
_WORDS = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "nll": "NLL", "coverage90": "in 90 %", "ssl": "SSL"}
_SEARCH = (
    "seeds", "clean", "schema_drop", "masked", "long_horizon", "calibration", "ssl", "command_ratio", "rank",
    "discovery_rank", "discovery_score", "confirm_rank",
)  # fmt: skip
_FACTORS = {
    "masks.mode": "mask", "masks.ratio": "ratio", "model.predictor.injection": "command",
    "objectives.weights.vicreg": "VICReg", "objectives.weights.latent": "λ lat", "objectives.weights.schema": "λ sch",
    "objectives.weights.recovery": "λ act", "training.ema_final_momentum": "EMA ends at", "model.blocks.width": "d",
    "model.encoder.temporal_layers": "L", "data.normaliser": "norm", "objectives.latent_layer_norm": "LN",
}  # fmt: skip


def write_page(folder: Path, settings: PaperSettings, chapters: Sequence[tuple[str, str]]) -> WrittenReport:
    """Write FOLDER/report.html with its tables and figures; `chapters` are names and titles in their order."""
    found = replace(gather(folder / STUDY), simulated=settings.simulated)
    numbers = made(folder)
    lines = {name: beside(table, numbers.get(name, {})) for name, table in published().items()}
    write_sealed(folder / NUMBERS, {name: [_plain(line) for line in table] for name, table in lines.items()})
    report = compose(found)
    sections = (
        _beside(lines, settings),
        _owed(folder),
        _merged(Study(folder / STUDY), numbers["search"]),
        _times(folder, chapters),
        *report.sections,
    )
    document = Document(
        "The paper, number by number",
        report.subtitle,
        _verdict(folder, lines, settings, found),
        tuple(section for section in sections if section.blocks),
        report.facts,
        report.remark,
    )
    return write_document(document, folder)


def _verdict(
    folder: Path, lines: Mapping[str, list[ComparedNumber]], settings: PaperSettings, found: Artefacts
) -> VerdictBox:
    every = [line for table in lines.values() for line in table]
    known = [line for line in every if line.made is not None and line.made.value is not None]
    judged = [line for line in known if line.verdict in ("inside", "outside")]
    inside = sum(line.verdict == "inside" for line in judged)
    answer = (
        f"{len(known)} of {len(every)} published numbers have one beside them; of {len(judged)} that the paper prints "
        f"with a spread, {inside} lie inside it."
    )
    said = []
    if settings.simulated:
        said.append("The logs are simulated, so no difference says anything about the paper: this shows that all runs.")
    if settings.size != "base":
        said.append(f"Size {settings.size} is a rehearsal: a small network, trained for a short while.")
    if not (folder / LOCK).exists() and (folder / REFUSAL).exists():
        said.append("The lock was refused, so the target stayed sealed and its numbers are missing.")
    if found.study is not None and found.study.verification.problems:
        said.append("The study does not verify: see the ledger.")
    question = "How far is what was made here from what the paper prints?"
    return VerdictBox(question, answer, "plain" if settings.simulated or not judged else "good", tuple(said))


def _beside(lines: Mapping[str, list[ComparedNumber]], settings: PaperSettings) -> Section:
    """One table for each of the paper's, and a figure of those with a spread."""
    words = PLAYED if settings.simulated else REAL
    blocks: list[Block] = []
    for name, table in published().items():
        blocks.append(_table(table, lines[name], words))
        if table.note:
            blocks.append(Note(table.note))
        if name == "search":
            blocks.append(_figure(lines[name]))
    lead = (
        "Left as printed, right as made here. ± is the standard deviation over seeds, a range the 95 % interval. "
        f"Likelihoods as the paper counts them, without {LIKELIHOOD_CONSTANT:.3f}. A verdict stands where the paper "
        "prints a spread or a count; a dash means that this folder has no such number."
    )
    return Section("paper", "Published and made here", lead, tuple(blocks))


def _table(table: PublishedTable, lines: Sequence[ComparedNumber], words: Mapping[str, str]) -> ResultTable:
    rows = tuple(
        {
            "row": line.label, "column": _title(line.column), "published": line.published.cell(),
            "made": line.made.cell() if line.made else None, "difference": line.difference,
            "verdict": words[line.verdict] or None,
        }
        for line in lines
    )  # fmt: skip
    heads = columns(
        ("row", "row", "text"), ("column", "number", "text"), ("published", "published"), ("made", "made here"),
        ("difference", "difference"), ("verdict", "verdict", "text"),
    )  # fmt: skip
    caption = f"{table.where}: {table.title}."
    return ResultTable(f"paper-{table.name.replace('_', '-')}", caption, heads, rows, folded=len(rows) > 24)


def _title(column: str) -> str:
    """The name of a column as a person writes it."""
    return " ".join(_WORDS.get(word, word) for word in column.split("_"))


def _figure(lines: Sequence[ComparedNumber]) -> Figure:
    """Clean RMSE of every candidate, published and made."""
    clean = [line for line in lines if line.column == "clean"]

    def dots(numbers: Sequence[Any]) -> tuple[Dot, ...]:
        return tuple(
            Dot(None) if one is None else Dot(one.value, one.value - (one.spread or 0), one.value + (one.spread or 0))
            for one in numbers
        )

    panel = Dots(
        "Clean RMSE on source validation", "RMSE (z-units)", tuple(line.label for line in clean),
        (("published", 0, dots([line.published for line in clean])),
         ("made here", 1, dots([line.made for line in clean]))),
    )  # fmt: skip
    legend = (("published", 0, "points"), ("made here", 1, "points"))
    return Figure("paper-search", "Mean and standard deviation over valid seeds.", (panel,), legend)


def _owed(folder: Path) -> Section:
    """What the paper says it still owes: intervals over runs, command use and few-shot of the locked model, the arm."""
    blocks: list[Block] = []
    if (folder / RESULT).exists():
        result, name = opening(folder), chosen_run(folder)
        rows = [{"what": _title(metric), "value": value} for metric, value in result["intervals"][name].items()]
        rows += [
            {"what": f"RMSE under {key} commands / true", "value": plan["rmse_ratio"]}
            for key, plan in result["command_use"][name]["plans"].items()
        ]
        heads = columns(("what", "locked model on the target", "text"), ("value", "with 95 % interval over runs"))
        caption = f"The locked model on {plural(len(result['runs']), 'run')}: the runs are the independent units."
        blocks.append(ResultTable("owed-runs", caption, heads, tuple(rows)))
    if (folder / LATENT).exists():
        blocks.append(_latent(read_sealed(folder / LATENT)))
        blocks.append(Note("These arms were trained before the opening and judged after the release: for orientation."))
    lead = "Run-level intervals, command sensitivity on the target, and the target without the latent objective."
    return Section("owed", "What the paper still owes", lead, tuple(blocks))


def _latent(result: Mapping[str, Any]) -> ResultTable:
    """Every run of the locked configuration and of the arms without the latent objective."""
    rows = tuple(
        {
            "run": name.partition(".")[2], "rmse": _with_bounds(result["intervals"][name]["rmse"]),
            **{key: result["scores"][name][key] for key in ("mae", "r2", "crps", "nll", "coverage90")},
            "shuffled": _with_bounds(result["command_use"][name]["plans"]["shuffled"]["rmse_ratio"]),
        }
        for name in result["command_use"]
    )  # fmt: skip
    heads = columns(
        ("run", "arm and seed", "text"), ("rmse", "target RMSE"), ("mae", "MAE"), ("r2", "R²"), ("crps", "CRPS"),
        ("nll", "NLL"), ("coverage90", "in 90 %", "share"), ("shuffled", "shuffled / true"),
    )  # fmt: skip
    caption = "The locked configuration (as_it_is) and arms without the latent objective, on the target."
    return ResultTable("owed-no-latent", caption, heads, rows, lowest=("mae", "crps", "nll"))


def _with_bounds(interval: Mapping[str, Any]) -> dict[str, Any]:
    return {key: interval.get(key) for key in ("estimate", "low", "high")}


def _merged(study: Study, numbers: Made) -> Section:
    """Factors and outcomes of every candidate in one table of 25 columns."""
    configs = {name: leaves(config.model_dump(mode="json")) for name, config in study.candidates().items()}
    rows = tuple(
        {
            "candidate": name,
            **{key: configs[name].get(key) for key in _FACTORS},
            **{key: number.cell() for key in _SEARCH if (number := numbers.get((name, key))) is not None},
        }
        for name in configs
    )
    heads = columns(
        ("candidate", "Candidate", "text"), *((key, title) for key, title in _FACTORS.items()),
        *((key, _title(key)) for key in _SEARCH),
    )  # fmt: skip
    caption = "Appendices A to C merged: what each candidate varies and what came of it (mean ± SD over valid seeds)."
    table = ResultTable("search-merged", caption, heads, rows, label="search-merged", folded=True)
    return Section("search-merged", "The search in one table", "Twenty candidates, 25 columns.", (table,))


def _times(folder: Path, chapters: Sequence[tuple[str, str]]) -> Section:
    """What each chapter took, beside the estimate that was given before."""
    notes = {title: note for name, title in chapters if (note := read_note(folder, name)) is not None}
    total = sum(note.seconds for note in notes.values())
    rows = tuple(
        {
            "chapter": title,
            "seconds": note.seconds,
            "share": note.seconds / total if total else None,
            "said": note.sentence,
        }
        for title, note in notes.items()
    )
    if not rows:
        return Section("times", "", "")
    heads = columns(
        ("chapter", "chapter", "text"), ("seconds", "seconds"), ("share", "of all", "share"),
        ("said", "result", "text"),
    )  # fmt: skip
    longest = max(notes, key=lambda title: notes[title].seconds)
    told = f"All chapters took {spoken(total)}; most of it went into: {longest}."
    if (folder / ESTIMATE).exists():
        before = read_sealed(folder / ESTIMATE)
        told += f" Said before the search, for its runs alone: about {spoken(before['seconds'])} if none stopped early."
    table = ResultTable("times", "Seconds of each chapter; an interrupted one counts its last sitting.", heads, rows)
    return Section("times", "What it cost", told, (table,))


def _plain(line: ComparedNumber) -> dict[str, Any]:
    return {
        "row": line.row, "column": line.column, "published": line.published, "made": line.made,
        "difference": line.difference, "verdict": line.verdict,
    }  # fmt: skip
