"""What a study found, as tables and figures: the ranking, its contrasts, machines left out, the ledger."""

import math
from collections.abc import Sequence
from typing import Any

from crossfeed.files import plain
from crossfeed.show.figures import Dot, Dots, Figure
from crossfeed.show.tables import ResultTable, columns, number, plural
from crossfeed.study.contrast import HIGHER_IS_BETTER, METRICS, ContrastLine, MachineLine
from crossfeed.study.record.declaration import CONFIRMATION, Confirmation
from crossfeed.study.record.ledger import Entry
from crossfeed.study.record.score import WEIGHTS, CandidateScore, leaders_disagree
from crossfeed.study.record.store import Run

# Every component of the score, and the heading it has in the paper.
COMPONENTS = {
    "clean": ("clean RMSE", "Clean RMSE"), "schema_drop": ("schema-drop RMSE", "Schema"),
    "masked": ("masked RMSE", "Masked"), "long_horizon": ("worst horizon RMSE", "Long"),
    "calibration": ("calibration penalty", "Calib."), "ssl": ("SSL loss", "SSL"),
}  # fmt: skip
_TITLES = {
    "clean": "Clean RMSE", "schema_drop": "Schema-drop RMSE", "masked": "Masked RMSE",
    "long_horizon": "Long-horizon RMSE", "calibration": "Calibration penalty", "ssl": "SSL validation loss",
    "ssl_scale_free": "SSL, scale-free", "command_ratio": "Cmd. sensitivity (shuffled / true)",
    "rank": "Effective-rank fraction",
}  # fmt: skip
DISAGREE = "The two scores crown different candidates: look at the components before trusting either."


def stayed(ranking: Sequence[CandidateScore]) -> list[CandidateScore]:
    """Candidates that halving did not drop: those whose scores may be compared."""
    return [line for line in ranking if line.dropped_after is None]


def ranking_tables(ranking: Sequence[CandidateScore], score: str) -> list[ResultTable]:
    """The ranking with both scores, and apart from it what successive halving dropped."""
    if not ranking:
        return []
    parts = tuple(ranking[0].components)
    rows = tuple({"rank": rank, **_candidate(line)} for rank, line in enumerate(stayed(ranking), start=1))
    heads = columns(
        ("rank", "#", "count"), ("candidate", "candidate", "text"), ("robust", "robust score"),
        ("paper", "paper's score"), ("seeds", "valid seeds", "count"), ("invalid", "out", "count"),
        ("collapsed", "collapsed", "count"), ("weak", "weak commands", "count"),
        *((name, COMPONENTS[name][0]) for name in parts),
    )  # fmt: skip
    share = sum(WEIGHTS[name] for name in parts)
    weights = ", ".join(f"{COMPONENTS[name][0]} {number(WEIGHTS[name] / share)}" for name in parts)
    caption = f"Ranking by the {score} score (lower is better); weights: {weights}. Best value of a column in bold."
    if "ssl" not in parts:
        caption += " The network has no latents, so there is no self-supervised component: the others share its weight."
    remarks = (DISAGREE,) if leaders_disagree(stayed(ranking)) else ()
    shown = [ResultTable("ranking", caption, heads, rows, lowest=("robust", "paper", *parts), remarks=remarks)]
    dropped = tuple(_candidate(line) for line in ranking if line.dropped_after is not None)
    if dropped:
        heads = columns(
            ("candidate", "candidate", "text"), ("seeds", "dropped after seeds", "count"),
            ("robust", "robust score then"), ("paper", "paper's score then"),
            *((name, COMPONENTS[name][0]) for name in parts),
        )  # fmt: skip
        caption = (
            "Dropped by successive halving, as they stood then. Scores of different rungs come from different pools "
            "and cannot be compared, neither with each other nor with the ranking."
        )
        shown.append(ResultTable("ranking-dropped", caption, heads, dropped))
    return shown


def _candidate(line: CandidateScore) -> dict[str, Any]:
    return {
        "candidate": line.candidate, "robust": finite(line.robust), "paper": finite(line.paper),
        "seeds": line.seeds, "invalid": line.invalid_seeds, "collapsed": line.collapsed_seeds,
        "weak": line.weak_seeds, **{name: finite(value) for name, value in line.components.items()},
    }  # fmt: skip


def finite(value: float) -> float | None:
    """The value, or nothing where there is no number."""
    return value if math.isfinite(value) else None


def scores_figure(ranking: Sequence[CandidateScore], runs: Sequence[Run]) -> Figure:
    """Both scores of every candidate that may be compared, and its two heaviest components."""
    lines = [line for line in stayed(ranking) if math.isfinite(line.robust)]
    names = tuple(line.candidate for line in lines)
    panel = Dots(
        "Both scores", "score (lower is better)", names,
        (("robust score", 0, tuple(Dot(line.robust) for line in lines)),
         ("paper's score", 1, tuple(Dot(line.paper) for line in lines))),
    )  # fmt: skip
    parts = Dots(
        "Clean and schema-drop RMSE", "RMSE (z-units)", names,
        (("clean", 2, tuple(Dot.over(values_of(runs, name, "clean")) for name in names)),
         ("schema-drop", 3, tuple(Dot.over(values_of(runs, name, "schema_drop")) for name in names))),
    )  # fmt: skip
    legend = tuple((name, colour, "points") for name, colour, _ in (*panel.series, *parts.series))
    caption = "The two scores of every candidate, and the two heaviest components with their range over seeds."
    return Figure("ranking", caption, (panel, parts), legend)


def values_of(runs: Sequence[Run], candidate: str, component: str) -> list[float]:
    """A component of the score in every finished run of a candidate."""
    return [
        float(run.outcome["bundle"]["components"][component])
        for run in runs
        if run.candidate == candidate and run.status == "finished"
    ]


def machines_table(lines: Sequence[MachineLine]) -> ResultTable:
    """Every machine of a fleet, left out and in training, on the same windows."""
    heads = columns(
        ("machine", "machine", "text"), ("windows", "windows", "count"), ("sensors", "sensors", "count"),
        ("seeds", "seeds", "count"),
        ("held_out", "RMSE, never seen"), ("trained", "RMSE, in training"), ("difference", "difference"),
        ("persistence", "RMSE of the last value"), ("beats_persistence", "seeds better than it", "count"),
        ("coverage90", "in 90 %", "share"), ("leakage", "leakage", "share"),
        ("leakage_of_inputs", "of inputs", "share"),
    )  # fmt: skip
    rows = tuple(
        {**plain(line), "held_out": {"estimate": line.held_out, "spread": plain(line.held_out_spread)}}
        for line in lines
    )
    caption = (
        "leave-one-out: each machine on its validation side, by models that never saw it and by one that did (mean ± "
        "SD over seeds, z-units of all machines), over the sensors that another machine shows too. Leakage: how well "
        "the other machines can be told from the representation, 0 for not at all; of inputs: from level and spread of "
        "what it was shown."
    )
    return ResultTable("leave-one-out", caption, heads, rows)


def contrast_table(lines: Sequence[ContrastLine]) -> ResultTable:
    """All arms of one contrast by one metric, the reference first: the paper's Tables 2a and 2b, with the pairs."""
    first = lines[0]
    rows = tuple(
        {
            "arm": line.arm, "rmse": _spread(line), "difference": _difference(line), "wins": _wins(line),
            "p": line.p, "p_holm": line.p_holm, "floor": line.floor, "flagged": line.collapsed_seeds,
            "verdict": line.verdict,
        }
        for line in lines
    )  # fmt: skip
    heads = columns(
        ("arm", "Setting", "text"), ("rmse", "RMSE" if first.metric == "clean" else _TITLES[first.metric]),
        ("difference", "difference", "interval"), ("wins", "better on", "text"), ("p", "p"), ("p_holm", "p, Holm"),
        ("floor", "smallest p possible"), ("flagged", "flagged", "count"), ("verdict", "verdict", "text"),
    )  # fmt: skip
    sign = "positive" if first.metric in HIGHER_IS_BETTER else "negative"
    caption = (
        f"{first.contrast}: {_TITLES[first.metric]} on source validation by arm (mean ± SD over seeds) against "
        f"{first.arm}, paired by seed; {sign} differences favour the arm."
    )
    lowest = () if first.metric in HIGHER_IS_BETTER else ("rmse",)
    return ResultTable(f"contrast-{first.contrast}", caption, heads, rows, lowest=lowest)


def contrast_figure(lines: Sequence[ContrastLine]) -> Figure:
    """The differences of all arms from the reference."""
    name, reference = lines[0].contrast, lines[0].arm
    panel = Dots.single_series(
        f"{name}: clean RMSE against {reference}", "difference (left of 0: the arm is better)", "difference",
        {line.arm: Dot(line.difference, line.low, line.high) for line in lines[1:]}, reference=0.0,
    )  # fmt: skip
    return Figure(f"contrast-{name}", "Mean paired difference with its 95 % bootstrap interval over seeds.", (panel,))


def paired_table(lines: Sequence[ContrastLine], reference: str, arm: str) -> ResultTable:
    """One arm on every metric: the layout of the paper's Appendix H."""
    found, name = {(line.metric, line.arm): line for line in lines}, lines[0].contrast
    rows = tuple(
        {
            "component": _TITLES[metric], "better": "higher" if metric in HIGHER_IS_BETTER else "lower",
            "reference": _spread(found[metric, reference]), "arm": _spread(found[metric, arm]),
            "difference": _difference(found[metric, arm]), "wins": _wins(found[metric, arm]),
        }
        for metric in METRICS
        if (metric, reference) in found and (metric, arm) in found
    )  # fmt: skip
    heads = columns(
        ("component", "Component", "text"), ("better", "better is", "text"), ("reference", reference), ("arm", arm),
        ("difference", "difference", "interval"), ("wins", f"{arm} wins", "text"),
    )  # fmt: skip
    caption = (
        f"{name}: {arm} against {reference} on source validation (mean ± SD over seeds); the interval is a bootstrap "
        "95 % interval of the paired difference."
    )
    return ResultTable(f"contrast-{name}-{arm}", caption, heads, rows, folded=True)


def _spread(line: ContrastLine) -> dict[str, Any]:
    return {"estimate": line.mean, "spread": finite(line.deviation)}


def _difference(line: ContrastLine) -> dict[str, Any] | None:
    if math.isnan(line.difference):
        return None
    return {"estimate": line.difference, "low": line.low, "high": line.high}


def _wins(line: ContrastLine) -> str | None:
    return None if math.isnan(line.difference) else f"{line.wins}/{line.seeds}"


def ledger_table(ledger: Sequence[Entry]) -> ResultTable:
    """What happened in which order."""
    rows = tuple(
        {"number": entry.number, "time": entry.time, "kind": entry.kind, "what": _in_words(entry), "hash": entry.hash}
        for entry in ledger
    )
    heads = columns(
        ("number", "#", "count"), ("time", "time (UTC)", "text"), ("kind", "what", "text"), ("what", "details", "text"),
        ("hash", "hash", "hash"),
    )  # fmt: skip
    caption = "The ledger. Each entry holds the hash of the one before it, so an edited history shows."
    return ResultTable("ledger", caption, heads, rows, folded=len(rows) > 6)


def _in_words(entry: Entry) -> str:
    """The gist of one entry."""
    content: dict[str, Any] = entry.content
    match entry.kind:
        case "init":
            return f"protocol {content['name']}, {plural(len(content['vault']), 'target table')} sealed"
        case "plan":
            return plural(len(content["runs"]), "run")
        case "run":
            return f"{content['name']}: {content['status']}"
        case "lock":
            return f"{content['candidate']}, seed {content['seed']}"
        case "declaration":
            return f"{content['name']}: {', '.join(content['arms'])}, if {content['condition']}"
        case "verdict":
            return f"{content['declaration']}: the condition {'holds' if content['holds'] else 'does not hold'}"
        case "opening" | "opening result":
            return str(content["purpose"])
        case "release":
            return f"target tables handed back: {', '.join(content['tables'])}"
    if entry.kind == CONFIRMATION:
        found = Confirmation.recorded(content)
        return f"leader {found.leader}, {'stable' if found.stable else 'not stable'}"
    return ", ".join(f"{key}: {value}" for key, value in content.items() if isinstance(value, str | int))[:120]
