"""Errors on source and target: beside the floors, with run-level intervals, by horizon, channel, regime and run."""

from collections.abc import Mapping
from typing import Any, Literal

from crossfeed.evaluation.result import Evaluation
from crossfeed.evaluation.statistics import Interval
from crossfeed.grid import plural
from crossfeed.json_file import plain
from crossfeed.reporting.artefacts import Artefacts, ModelResult
from crossfeed.reporting.blocks import Block, Figure, Note, ReportTable, Section, columns, section
from crossfeed.reporting.panels import XY, Dot, Dots, Line

_HEADLINE = columns(
    ("forecaster", "forecaster", "text"), ("rmse", "RMSE", "interval"),
    ("mae", "MAE", "interval"), ("skill_rmse", "skill (RMSE)", "interval", "Skill"),
    ("skill_mae", "skill (MAE)"), ("crps", "CRPS"), ("nll", "NLL"), ("r2", "R²", "number", "$R^2$"),
    ("coverage90", "in 90 %", "share"),
)  # fmt: skip
_SPACE = "Errors in z-units of the source's train rows; in brackets 95 % over"
_LOWEST = ("rmse", "mae", "crps", "nll")


def sections(found: Artefacts) -> list[Section]:
    """Headline tables, then where the errors lie."""
    return [*_tables(found), *_details(found)]


def headline(found: Evaluation, name: str, caption: str) -> ReportTable:
    """Everybody on the same windows."""
    rows = []
    for forecaster, scores in sorted(found.scores.items(), key=lambda one: one[0] not in found.models):
        bounds = plain(found.intervals.get(forecaster, {}))
        row = {key: scores.get(key) for key in ("skill_mae", "crps", "nll", "r2", "coverage90")}
        row |= {key: bounds.get(key) or scores.get(key) for key in ("rmse", "mae", "skill_rmse")}
        rows.append({"forecaster": forecaster, **row})
    return ReportTable(name, caption, _HEADLINE, tuple(rows), label=name, lowest=_LOWEST)


def _tables(found: Artefacts) -> list[Section]:
    blocks: list[Block] = []
    own = found.evaluation(own=True)
    if own is not None:
        caption = f"Source machine, {own.part} side, never learned from: {_size(own)}. {_SPACE} {own.unit}s."
        blocks.append(headline(own, "source", caption))
    elif found.run is not None and found.run.summary:
        blocks.append(_validation(found.run.summary["validation"]))
    known = found.on_target()
    if known is not None:
        sealed = "opened once after the lock" if found.study and found.study.confirmatory else "an open evaluation"
        caption = f"Target machine, zero-shot, {sealed}: {_size(known.evaluation)}. {_SPACE} runs."
        blocks.append(headline(known.evaluation, "target", caption))
        blocks += _tests(known)
        for who, why in known.evaluation.excluded.items():
            blocks.append(Note(f"{who} is left out: {why}", "fair"))
    lead = (
        "The model beside what costs nothing: repeating the last value, and continuing the line. Skill is 1 − error / "
        "error of persistence: above 0 is better than the last value. RMSE is that of the forecast's mean, MAE that of "
        "its median. Intervals resample whole runs."
    )
    return section("results", "Source and target", lead, blocks)


def _size(found: Evaluation) -> str:
    return f"{found.windows:,} windows of {plural(len(found.runs), found.unit)}"


def _validation(validation: Mapping[str, Any]) -> ReportTable:
    rows = tuple(
        {"forecaster": name, **{key: row.get(key) for key in ("rmse", "mae", "crps", "nll", "coverage90")}}
        for name, row in validation.items()
        if isinstance(row, Mapping) and "rmse" in row
    )
    heads = tuple(
        column for column in _HEADLINE if column.key in ("forecaster", "rmse", "mae", "crps", "nll", "coverage90")
    )
    caption = (
        f"Source validation, {validation['windows']:,} windows, z-units: these windows chose the epoch, so they "
        "flatter. The test side is judged by crossfeed evaluate."
    )
    return ReportTable("source-validation", caption, heads, rows, lowest=_LOWEST)


def _tests(known: ModelResult) -> list[Block]:
    told = [
        f"{one.second}: better in {one.wins} of {one.units} runs, {one.verdict}"
        for rows in known.evaluation.comparisons
        for one in rows
        if one.first == known.name
    ]
    if not told:
        return []
    return [Note(f"{known.name} run by run (exact sign-flip test, Holm): against {'; against '.join(told)}.")]


def _details(found: Artefacts) -> list[Section]:
    sides = {"target": found.on_target(), "source": found.on_source()}
    known = {side: one for side, one in sides.items() if one is not None}
    if not known:
        return []
    first = next(iter(known.values()))
    blocks: list[Block] = [_horizons(known), _channels_figure(first)]
    blocks += [_channels(one, side) for side, one in known.items()]
    blocks.append(_regimes_and_runs(first))
    lead = (
        "Where the errors lie. Look for channels left of the line (the last value is better there) and for regimes in "
        "which the error jumps: start-ups and stops are what a forecast is for."
    )
    return section("details", "Errors by horizon, channel, regime and run", lead, blocks)


def _horizons(known: Mapping[str, ModelResult]) -> Figure:
    panels = []
    for side, one in known.items():
        by_horizon, lines = one.evaluation.by_horizon, []
        floors = (name for name in by_horizon if name not in one.evaluation.models)
        for colour, forecaster in enumerate((one.name, *floors)):
            rows = by_horizon[forecaster]
            shown = "model" if forecaster == one.name else forecaster
            steps, errors = [int(label) for label in rows], [row["rmse"] for row in rows.values()]
            lines.append(Line(shown, steps, errors, colour, "marked"))
        worst = max(row["rmse"] or 0.0 for row in by_horizon[one.name].values())
        capped = [line for line in lines if line.name == "model" or max(y or 0.0 for y in line.y) < 6 * worst]
        label = "seconds ahead" if one.evaluation.period == 1.0 else "rows ahead"
        panels.append(XY(f"RMSE by horizon: {side}", label, "RMSE (z-units)", tuple(capped), from_zero=True))
    legend = (("model", 0, "line"), ("persistence", 1, "line"), ("linear drift", 2, "line"))
    caption = "Errors grow with the distance; the model should grow slower than the floors."
    return Figure("by-horizon", caption, tuple(panels), legend)


def _channels_figure(known: ModelResult) -> Figure:
    channels = known.evaluation.by_channel[known.name]
    rows = {f"{name} [{row.unit}]": row for name, row in channels.items() if row.metrics.get("skill_rmse") is not None}

    def dots(key: str) -> dict[str, Dot]:
        return {name: Dot.of(row.intervals.get(key) or Interval(row.metrics.get(key))) for name, row in rows.items()}

    skill = Dots.single_series(
        "Skill against the last value", "1 − RMSE / RMSE of persistence", "skill", dots("skill_rmse"),
        reference=0.0, limits=(-1.0, 1.0),
    )  # fmt: skip
    coverage = Dots.single_series(
        "Share inside the 90 % interval", "share (0.9 is right)", "coverage", dots("coverage90"), 1,
        reference=0.9, limits=(0.0, 1.02),
    )  # fmt: skip
    caption = (
        "Each channel with its 95 % interval over runs: right of the dotted line is better than the last value; "
        "coverage should sit on its line."
    )
    return Figure("by-channel", caption, (skill, coverage))


def _channels(known: ModelResult, side: str) -> ReportTable:
    rows = tuple(
        {
            "channel": channel, "unit": row.unit,
            **{name: row.physical[name] for name in ("rmse", "mae", "bias", "width90")}, "rmse_z": row.metrics["rmse"],
            "skill_rmse": plain(row.intervals.get("skill_rmse")) or row.metrics["skill_rmse"],
            "r2": "constant" if row.constant else row.metrics["r2"], "coverage90": row.metrics["coverage90"],
        }
        for channel, row in known.evaluation.by_channel[known.name].items()
    )  # fmt: skip
    heads = columns(
        ("channel", "channel", "text"), ("unit", "unit", "text"), ("rmse", "RMSE [unit]"), ("mae", "MAE [unit]"),
        ("bias", "bias [unit]"), ("width90", "90 % width [unit]"), ("rmse_z", "RMSE [z]"),
        ("skill_rmse", "skill (95 % over runs)", "interval", "Skill"), ("r2", "R²", "number", "$R^2$"),
        ("coverage90", "in 90 %", "share"),
    )  # fmt: skip
    caption = f"Channels of the {side} in their own units."
    return ReportTable(f"by-channel-{side}", caption, heads, rows, folded=side == "source")


def _regimes_and_runs(known: ModelResult) -> ReportTable:
    divisions: tuple[Literal["regime", "run"], ...] = ("regime", "run")
    rows = [
        {**row, "divided_by": divided_by, "label": row[divided_by]}
        for divided_by in divisions
        for row in known.evaluation.rows(divided_by)
        if row["forecaster"] == known.name
    ]
    heads = columns(
        ("divided_by", "by", "text"), ("label", "which", "text"), ("count", "values", "count"), ("rmse", "RMSE"),
        ("skill_rmse", "skill"), ("crps", "CRPS"), ("nll", "NLL"), ("coverage90", "in 90 %", "share"),
    )  # fmt: skip
    caption = "The target by regime (read off the planned commands beforehand) and by run."
    return ReportTable("by-regime-and-run", caption, heads, tuple(rows), folded=len(rows) > 12)
