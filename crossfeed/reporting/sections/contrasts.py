"""Ready studies and declared ablations, arm against reference: the paper's Tables 2a and 2b and its Appendix H."""

from collections.abc import Sequence
from typing import Any

from crossfeed.json_file import plain
from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, Note, ReportTable, Section, columns, section
from crossfeed.reporting.panels import Dot, Dots
from crossfeed.study.contrast import HIGHER_IS_BETTER, METRICS, ContrastLine, MachineLine

_TITLES = {
    "clean": "Clean RMSE", "schema_drop": "Schema-drop RMSE", "masked": "Masked RMSE",
    "long_horizon": "Long-horizon RMSE", "calibration": "Calibration penalty", "ssl": "SSL validation loss",
    "ssl_scale_free": "SSL, scale-free", "command_ratio": "Cmd. sensitivity (shuffled / true)",
    "rank": "Effective-rank fraction",
}  # fmt: skip


def sections(found: Artefacts) -> list[Section]:
    """Every contrast of the study that has numbers."""
    study = found.study
    lines = [line for line in study.contrasts if line.mean == line.mean] if study else []
    blocks: list[Block] = []
    for name in dict.fromkeys(line.contrast for line in lines):
        blocks += _contrast(name, [line for line in lines if line.contrast == name])
    if study and study.held_out:
        blocks.append(_held_out(study.held_out))
    lead = (
        "One factor at a time against a reference, paired by seed on one split. Read the interval and the number of "
        "seeds on which the arm is better; p values that so few pairs cannot reach are not spoken of."
    )
    return section("contrasts", "Contrasts", lead, blocks)


def _held_out(lines: Sequence[MachineLine]) -> ReportTable:
    """Every machine of a fleet, never seen and in training, on the same windows."""
    heads = columns(
        ("machine", "machine", "text"), ("windows", "windows", "count"), ("seeds", "seeds", "count"),
        ("held_out", "RMSE, never seen"), ("trained", "RMSE, in training"), ("difference", "difference"),
        ("persistence", "RMSE of the last value"), ("beats_persistence", "seeds better than it", "count"),
        ("coverage90", "in 90 %", "share"), ("leakage", "leakage", "share"),
    )  # fmt: skip
    rows = tuple(
        {**plain(line), "held_out": {"estimate": line.held_out, "spread": plain(line.held_out_spread)}}
        for line in lines
    )
    caption = (
        "leave-one-out: each machine on its validation side, by models that never saw it and by one that did (mean ± "
        "SD over seeds, z-units of all machines). Leakage: how well the other machines can be told from the "
        "representation, 0 for not at all."
    )
    return ReportTable("leave-one-out", caption, heads, rows)


def _contrast(name: str, lines: list[ContrastLine]) -> list[Block]:
    arms = list(dict.fromkeys(line.arm for line in lines))
    blocks: list[Block] = []
    flagged = [
        f"{line.arm} ({line.collapsed_seeds})" for line in lines if line.metric == "clean" and line.collapsed_seeds
    ]
    if flagged:
        blocks.append(
            Note(f"{name}: seeds that the latent gate flagged, which count here: {', '.join(flagged)}.", "fair")
        )
    blocks.append(_figure(name, [line for line in lines if line.metric == "clean"]))
    blocks.append(_by_arm(name, [line for line in lines if line.metric == "clean"]))
    blocks += [_paired(name, lines, arms[0], arm) for arm in arms[1:]]
    return blocks


def _figure(name: str, lines: list[ContrastLine]) -> Figure:
    panel = Dots.single_series(
        f"{name}: clean RMSE against {lines[0].arm}", "difference (left of 0: the arm is better)", "difference",
        {line.arm: Dot(line.difference, line.low, line.high) for line in lines[1:]}, reference=0.0,
    )  # fmt: skip
    return Figure(f"contrast-{name}", "Mean paired difference with its 95 % bootstrap interval over seeds.", (panel,))


def _by_arm(name: str, lines: list[ContrastLine]) -> ReportTable:
    """All arms by the clean RMSE: the layout of Tables 2a and 2b, with what the pairs say."""
    rows = tuple(
        {
            "arm": line.arm, "rmse": _spread(line), "difference": _difference(line), "wins": _wins(line),
            "p": line.p, "p_holm": line.p_holm, "floor": line.floor, "flagged": line.collapsed_seeds,
            "verdict": line.verdict,
        }
        for line in lines
    )  # fmt: skip
    heads = columns(
        ("arm", "Setting", "text"), ("rmse", "RMSE"), ("difference", "difference", "interval"),
        ("wins", "better on", "text"), ("p", "p"), ("p_holm", "p, Holm"), ("floor", "smallest p possible"),
        ("flagged", "flagged", "count"), ("verdict", "verdict", "text"),
    )  # fmt: skip
    caption = (
        f"{name}: clean RMSE on source validation by arm (mean ± SD over seeds) against {lines[0].arm}, paired by seed."
    )
    return ReportTable(f"contrast-{name}", caption, heads, rows, lowest=("rmse",))


def _paired(name: str, lines: list[ContrastLine], reference: str, arm: str) -> ReportTable:
    """One arm on every metric: the layout of the paper's Appendix H."""
    found = {(line.metric, line.arm): line for line in lines}
    rows = []
    for metric in METRICS:
        one, two = found.get((metric, reference)), found.get((metric, arm))
        if one is not None and two is not None:
            better = "higher" if metric in HIGHER_IS_BETTER else "lower"
            rows.append(
                {
                    "component": _TITLES[metric], "better": better, "reference": _spread(one), "arm": _spread(two),
                    "difference": _difference(two), "wins": _wins(two),
                }
            )  # fmt: skip
    heads = columns(
        ("component", "Component", "text"), ("better", "better is", "text"), ("reference", reference), ("arm", arm),
        ("difference", "difference", "interval"), ("wins", f"{arm} wins", "text"),
    )  # fmt: skip
    caption = (
        f"{name}: {arm} against {reference} on source validation (mean ± SD over seeds); the interval is a bootstrap "
        "95 % interval of the paired difference."
    )
    return ReportTable(f"contrast-{name}-{arm}", caption, heads, tuple(rows), folded=True)


def _spread(line: ContrastLine) -> dict[str, Any]:
    return {"estimate": line.mean, "spread": line.deviation if line.deviation == line.deviation else None}


def _difference(line: ContrastLine) -> dict[str, Any] | None:
    if line.difference != line.difference:
        return None
    return {"estimate": line.difference, "low": line.low, "high": line.high}


def _wins(line: ContrastLine) -> str | None:
    return None if line.difference != line.difference else f"{line.wins}/{line.seeds}"
