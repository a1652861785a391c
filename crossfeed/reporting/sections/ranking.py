"""The ranking of candidates with both scores, and how the leader was confirmed."""

import math
from statistics import fmean, pstdev
from typing import Any

from crossfeed.configuration import leaves
from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, Note, ReportTable, Section, columns, section
from crossfeed.reporting.numbers import number
from crossfeed.reporting.panels import Dot, Dots
from crossfeed.reporting.study_facts import StudyFacts
from crossfeed.study.record.score import WEIGHTS, CandidateScore

_NAMES = {
    "clean": ("clean RMSE", "Clean RMSE"), "schema_drop": ("schema-drop RMSE", "Schema"),
    "masked": ("masked RMSE", "Masked"), "long_horizon": ("worst horizon RMSE", "Long"),
    "calibration": ("calibration penalty", "Calib."), "ssl": ("SSL loss", "SSL"),
}  # fmt: skip


def sections(found: Artefacts) -> list[Section]:
    """The ranking, as far as runs are finished."""
    study = found.study
    if study is None or not study.ranking:
        return []
    blocks: list[Block] = []
    unfinished = sum(run.status not in ("finished", "invalid") for run in study.searched)
    if unfinished:
        blocks.append(Note(f"{unfinished} planned runs are not finished; the ranking is provisional.", "next"))
    if study.disagree:
        blocks.append(
            Note("The two scores crown different candidates: look at the components before trusting either.", "fair")
        )
    blocks += [_figure(study), _ranking(study), *_dropped(study), _outcomes(study), _matrix(study)]
    blocks += _confirmation(study)
    decides = "median and MAD" if study.score == "robust" else "mean and standard deviation"
    lead = (
        f"Candidates by the {study.score} score ({decides} of the pool decide what is large), measured on source "
        "validation alone. Lower is better; look whether the leader leads in most components or in one."
    )
    return section("ranking", "Ranking", lead, blocks)


def _figure(study: StudyFacts) -> Figure:
    lines = [line for line in _stayed(study) if math.isfinite(line.robust)]
    names = tuple(line.candidate for line in lines)
    panel = Dots(
        "Both scores", "score (lower is better)", names,
        (("robust score", 0, tuple(Dot(line.robust) for line in lines)),
         ("paper's score", 1, tuple(Dot(line.paper) for line in lines))),
    )  # fmt: skip
    parts = Dots(
        "Clean and schema-drop RMSE", "RMSE (z-units)", names,
        (("clean", 2, tuple(Dot.over(_values(study, name, "clean")) for name in names)),
         ("schema-drop", 3, tuple(Dot.over(_values(study, name, "schema_drop")) for name in names))),
    )  # fmt: skip
    legend = tuple((name, colour, "points") for name, colour, _ in (*panel.series, *parts.series))
    caption = "The two scores of every candidate, and the two heaviest components with their range over seeds."
    return Figure("ranking", caption, (panel, parts), legend)


def _values(study: StudyFacts, candidate: str, component: str) -> list[float]:
    return [
        float(run.outcome["bundle"]["components"][component])
        for run in study.searched
        if run.candidate == candidate and run.status == "finished"
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _stayed(study: StudyFacts) -> list[CandidateScore]:
    """Candidates that halving did not drop: those whose scores may be compared."""
    return [line for line in study.ranking if line.dropped_after is None]


def _row(line: CandidateScore) -> dict[str, Any]:
    return {
        "candidate": line.candidate, "robust": _finite(line.robust), "paper": _finite(line.paper),
        "seeds": line.seeds, "invalid": line.invalid_seeds, "collapsed": line.collapsed_seeds,
        "weak": line.weak_seeds, **{name: _finite(value) for name, value in line.components.items()},
    }  # fmt: skip


def _dropped(study: StudyFacts) -> list[ReportTable]:
    """Candidates that halving dropped, each as it stood in the rung that ended it."""
    rows = tuple(_row(line) for line in study.ranking if line.dropped_after is not None)
    if not rows:
        return []
    parts = tuple(study.ranking[0].components)
    heads = columns(
        ("candidate", "candidate", "text"), ("seeds", "dropped after seeds", "count"), ("robust", "robust score then"),
        ("paper", "paper's score then"), *((name, _NAMES[name][0]) for name in parts),
    )  # fmt: skip
    caption = (
        "Dropped by successive halving, as they stood then. Scores of different rungs come from different pools and "
        "cannot be compared, neither with each other nor with the ranking."
    )
    return [ReportTable("ranking-dropped", caption, heads, rows)]


def _ranking(study: StudyFacts) -> ReportTable:
    parts = tuple(study.ranking[0].components)
    rows = tuple({"rank": rank, **_row(line)} for rank, line in enumerate(_stayed(study), start=1))
    heads = columns(
        ("rank", "#", "count"), ("candidate", "candidate", "text"), ("robust", "robust score"),
        ("paper", "paper's score"), ("seeds", "valid seeds", "count"), ("invalid", "out", "count"),
        ("collapsed", "collapsed", "count"), ("weak", "weak commands", "count"),
        *((name, _NAMES[name][0]) for name in parts),
    )  # fmt: skip
    share = sum(WEIGHTS[name] for name in parts)
    weights = ", ".join(f"{_NAMES[name][0]} {number(WEIGHTS[name] / share)}" for name in parts)
    caption = f"Ranking by the {study.score} score; weights: {weights}. Best value of a column in bold."
    if "ssl" not in parts:
        caption += " The network has no latents, so there is no self-supervised component: the others share its weight."
    return ReportTable("ranking", caption, heads, rows, lowest=("robust", "paper", *parts))


def _outcomes(study: StudyFacts) -> ReportTable:
    """The paper's appendix table of source-validation outcomes."""
    confirmed, gated = _confirmed(study), study.protocol["config"]["training"]["health"]["latents"][0]
    rows = []
    for rank, line in enumerate(study.ranking, start=1):
        runs = [run for run in study.searched if run.candidate == line.candidate and run.status == "finished"]
        bundles = [run.outcome["bundle"] for run in runs]
        row: dict[str, Any] = {"candidate": line.candidate, "seeds": f"{line.seeds}/{line.seeds + line.invalid_seeds}"}
        row |= {name: _finite(value) for name, value in line.components.items()}
        clean = _values(study, line.candidate, "clean")
        row["clean"] = f"{number(fmean(clean))} ± {number(pstdev(clean))}" if clean else None
        row["command"] = fmean(bundle["command_ratio"] for bundle in bundles) if bundles else None
        ranks = [bundle["health"][f"{gated}_rank"] for bundle in bundles if bundle.get("health")]
        row["rank"] = fmean(ranks) if ranks else None
        score = getattr(line, study.score)
        row["standing"] = f"#{rank} ({number(score)})" if line.seeds else "excluded"
        if line.dropped_after is not None:
            row["standing"] = f"dropped after {line.dropped_after} ({number(score)})"
        row["standing"] += f" / leader at {confirmed[line.candidate]} seeds" if line.candidate in confirmed else ""
        rows.append(row)
    heads = columns(
        ("candidate", "Candidate", "text"), ("seeds", "Seeds", "text"),
        *((name, latex, "number") for name, (_, latex) in _NAMES.items() if name != "ssl"),
        ("command", "Cmd. sens."), ("rank", "Eff. rank"), ("standing", "Discovery / confirm.", "text"),
    )  # fmt: skip
    caption = (
        "Source-validation outcomes in the paper's layout. Lower RMSE/schema-drop is better; command sensitivity "
        "greater than one indicates that shuffled future commands degrade prediction."
    )
    return ReportTable("search-outcomes", caption, heads, tuple(rows), label="search-outcomes", folded=True)


def _matrix(study: StudyFacts) -> ReportTable:
    """What makes the candidates differ: every setting on which two of them disagree, as in the paper's Appendix B."""
    configs = {run.candidate: leaves(run.config) for run in study.searched}
    names = list(dict.fromkeys(name for config in configs.values() for name in config))
    varied = [
        name
        for name in names
        if name != "training.seed" and len({str(config.get(name)) for config in configs.values()}) > 1
    ]
    rows = tuple(
        {"candidate": candidate, **{name: str(config.get(name)) for name in varied}}
        for candidate, config in configs.items()
    )
    heads = columns(("candidate", "Candidate", "text"), *((name, name, "text") for name in varied))
    caption = (
        "The candidate matrix: all settings on which candidates of the search differ; the rest is the same for all."
    )
    return ReportTable("candidate-matrix", caption, heads, rows, label="all-configs", folded=True)


def _confirmed(study: StudyFacts) -> dict[str, str]:
    """The seed counts at which a candidate led."""
    leaders: dict[str, str] = {}
    for count, name in study.confirmation.leaders.items() if study.confirmation else ():
        leaders[name] = f"{leaders[name]}, {count}" if name in leaders else str(count)
    return leaders


def _confirmation(study: StudyFacts) -> list[Block]:
    found = study.confirmation
    if found is None:
        return []
    stands = "the leader stands" if found.stable else "the leader still changed, so a lock was refused"
    return [Note(f"Confirmation: leading were {found.history}; {stands}.", "good" if found.stable else "fair")]
