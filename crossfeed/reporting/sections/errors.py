"""Errors on source and target: beside the floors, with run-level intervals, by horizon, channel, regime and run."""

from collections.abc import Mapping
from typing import Any

from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, Note, ReportTable, Section, columns
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


def headline(content: Mapping[str, Any], name: str, caption: str) -> ReportTable:
    """Everybody on the same windows."""
    rows = []
    floors = ("persistence", "linear drift")
    for forecaster, scores in sorted(content["scores"].items(), key=lambda one: one[0] in floors):
        bounds = content["intervals"].get(forecaster, {})
        row = {key: scores.get(key) for key in ("skill_mae", "crps", "nll", "r2", "coverage90")}
        row |= {key: bounds.get(key) or scores.get(key) for key in ("rmse", "mae", "skill_rmse")}
        rows.append({"forecaster": forecaster, **row})
    return ReportTable(name, caption, _HEADLINE, tuple(rows), label=name, lowest=_LOWEST)


def _tables(found: Artefacts) -> list[Section]:
    blocks: list[Block] = []
    own = found.evaluation(own=True)
    if own is not None:
        units = f"{own['windows']:,} windows of {len(own['runs'])} {own['unit']}s"
        caption = f"Source machine, {own['part']} side, never learned from: {units}. {_SPACE} {own['unit']}s."
        blocks.append(headline(own, "source", caption))
    elif found.run is not None and found.run.summary:
        blocks.append(_validation(found.run.summary["validation"]))
    known = found.target()
    if known is not None:
        content, name = known
        units = f"{content['windows']:,} windows of {len(content['runs'])} {content.get('unit', 'run')}s"
        sealed = "opened once after the lock" if found.study and found.study.confirmatory else "an open evaluation"
        caption = f"Target machine, zero-shot, {sealed}: {units}. {_SPACE} runs."
        blocks.append(headline(content, "target", caption))
        blocks += _tests(content, name)
        for who, why in content.get("excluded", {}).items():
            blocks.append(Note(f"{who} is left out: {why}", "fair"))
    if not blocks:
        return []
    lead = (
        "The model beside what costs nothing: repeating the last value, and continuing the line. Skill is 1 − error / "
        "error of persistence: above 0 is better than the last value. RMSE is that of the forecast's mean, MAE that of "
        "its median. Intervals resample whole runs."
    )
    return [Section("results", "Source and target", lead, tuple(blocks))]


def _validation(validation: Mapping[str, Any]) -> ReportTable:
    rows = tuple(
        {"forecaster": name, **{key: validation[name].get(key) for key in ("rmse", "mae", "crps", "nll", "coverage90")}}
        for name in ("model", "persistence", "linear drift", "shuffled commands")
        if name in validation
    )  # fmt: skip
    heads = tuple(
        column for column in _HEADLINE if column.key in ("forecaster", "rmse", "mae", "crps", "nll", "coverage90")
    )
    caption = (
        f"Source validation, {validation['windows']:,} windows, z-units: these windows chose the epoch, so they "
        "flatter. The test side is judged by crossfeed evaluate."
    )
    return ReportTable("source-validation", caption, heads, rows, lowest=_LOWEST)


def _tests(content: Mapping[str, Any], name: str) -> list[Block]:
    told = []
    for one in (row for rows in content.get("comparisons", []) for row in rows if row["first"] == name):
        told.append(f"{one['second']}: better in {one['wins']} of {one['units']} runs, {one['verdict']}")
    return [Note(f"{name} run by run (exact sign-flip test, Holm): against {'; against '.join(told)}.")] if told else []


def _details(found: Artefacts) -> list[Section]:
    known = found.target()
    parts = [(f"target, {known[1]}", *known)] if known else []
    own = found.evaluation(own=True)
    if own is not None and own["model"]["name"] in own["scores"]:
        parts.append(("source, test side", own, own["model"]["name"]))
    if not parts:
        return []
    blocks: list[Block] = [_horizons(parts), _channels_figure(parts[0])]
    blocks += [_channels(content, name, title) for title, content, name in parts]
    blocks.append(_regimes_and_runs(parts[0]))
    lead = (
        "Where the errors lie. Look for channels left of the line (the last value is better there) and for regimes in "
        "which the error jumps: start-ups and stops are what a forecast is for."
    )
    return [Section("details", "Errors by horizon, channel, regime and run", lead, tuple(blocks))]


def _horizons(parts: list[tuple[str, Mapping[str, Any], str]]) -> Figure:
    panels = []
    for title, content, name in parts:
        others = [other for other in content["by_horizon"] if other in ("persistence", "linear drift")]
        lines = []
        for colour, forecaster in enumerate([name, *others]):
            rows = content["by_horizon"][forecaster]
            shown = "model" if forecaster == name else forecaster
            steps, errors = [int(label) for label in rows], [row["rmse"] for row in rows.values()]
            lines.append(Line(shown, steps, errors, colour, "marked"))
        worst = max(row["rmse"] for row in content["by_horizon"][name].values())
        capped = [line for line in lines if line.name == "model" or max(y or 0.0 for y in line.y) < 6 * worst]
        period = content.get("period")
        label = "seconds ahead" if period == 1.0 else "rows ahead"
        panels.append(
            XY(f"RMSE by horizon: {title.split(',')[0]}", label, "RMSE (z-units)", tuple(capped), from_zero=True)
        )
    legend = (("model", 0, "line"), ("persistence", 1, "line"), ("linear drift", 2, "line"))
    return Figure(
        "by-horizon",
        "Errors grow with the distance; the model should grow slower than the floors.",
        tuple(panels),
        legend,
    )


def _channels_figure(part: tuple[str, Mapping[str, Any], str]) -> Figure:
    _, content, name = part
    rows = {channel: row for channel, row in content["by_channel"][name].items() if row.get("skill_rmse") is not None}

    def dot(row: Mapping[str, Any], key: str) -> Dot:
        bounds = row.get("intervals", {}).get(key) or {}
        return Dot(row.get(key), bounds.get("low"), bounds.get("high"))

    names = tuple(f"{channel} [{row['unit']}]" for channel, row in rows.items())
    skill = Dots(
        "Skill against the last value", "1 − RMSE / RMSE of persistence", names,
        (("skill", 0, tuple(dot(row, "skill_rmse") for row in rows.values())),), (0.0, "no better"), (-1.0, 1.0),
    )  # fmt: skip
    coverage = Dots(
        "Share inside the 90 % interval", "share (0.9 is right)", names,
        (("coverage", 1, tuple(dot(row, "coverage90") for row in rows.values())),), (0.9, "nominal"), (0.0, 1.02),
    )  # fmt: skip
    caption = (
        "Each channel with its 95 % interval over runs: right of the dotted line is better than the last value; "
        "coverage should sit on its line."
    )
    return Figure("by-channel", caption, (skill, coverage))


def _channels(content: Mapping[str, Any], name: str, title: str) -> ReportTable:
    rows = tuple(
        {
            "channel": channel, "unit": row["unit"], "rmse": row["physical"]["rmse"], "mae": row["physical"]["mae"],
            "bias": row["physical"]["bias"], "width90": row["physical"]["width90"], "rmse_z": row["rmse"],
            "skill_rmse": row.get("intervals", {}).get("skill_rmse") or row["skill_rmse"],
            "r2": "constant" if row["constant"] else row["r2"], "coverage90": row["coverage90"],
        }
        for channel, row in content["by_channel"][name].items()
    )  # fmt: skip
    heads = columns(
        ("channel", "channel", "text"), ("unit", "unit", "text"), ("rmse", "RMSE [unit]"), ("mae", "MAE [unit]"),
        ("bias", "bias [unit]"), ("width90", "90 % width [unit]"), ("rmse_z", "RMSE [z]"),
        ("skill_rmse", "skill (95 % over runs)", "interval", "Skill"), ("r2", "R²", "number", "$R^2$"),
        ("coverage90", "in 90 %", "share"),
    )  # fmt: skip
    side = title.split(",")[0]
    return ReportTable(
        f"by-channel-{side}", f"Channels of the {side} in their own units.", heads, rows, folded=side == "source"
    )


def _regimes_and_runs(part: tuple[str, Mapping[str, Any], str]) -> ReportTable:
    _, content, name = part
    rows = []
    for divided_by in ("regime", "run"):
        for label, row in content[f"by_{divided_by}"][name].items():
            rows.append(
                {
                    "divided_by": divided_by,
                    "label": label,
                    **{key: row[key] for key in ("count", "rmse", "skill_rmse", "crps", "nll", "coverage90")},
                }
            )
    heads = columns(
        ("divided_by", "by", "text"), ("label", "which", "text"), ("count", "values", "count"), ("rmse", "RMSE"),
        ("skill_rmse", "skill"), ("crps", "CRPS"), ("nll", "NLL"), ("coverage90", "in 90 %", "share"),
    )  # fmt: skip
    caption = "The target by regime (read off the planned commands beforehand) and by run."
    return ReportTable("by-regime-and-run", caption, heads, tuple(rows), folded=len(rows) > 12)
