"""Declared ablations, arms side by side: announced before they ran, opened only if their condition held."""

from collections.abc import Mapping
from typing import Any

from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, Note, ReportTable, Section, Tone, columns, filled, section
from crossfeed.reporting.panels import Dot, Dots
from crossfeed.reporting.study_facts import StudyFacts, over_seeds
from crossfeed.study.record.declaration import RMSE_COMPONENTS, Declaration
from crossfeed.study.record.outcomes import flag_of, has_numbers
from crossfeed.study.repetition import Drift

_TARGET = {"rmse": "RMSE", "mae": "MAE", "crps": "CRPS", "nll": "NLL", "coverage90": "in 90 %"}


def sections(found: Artefacts) -> list[Section]:
    """Every declaration of the ledger with as much as is known about it."""
    study = found.study
    declared = study.entries("declaration") if study else []
    if study is None or not declared:
        return []
    blocks: list[Block] = []
    for entry in declared:
        blocks += _declaration(study, entry.content)
    lead = (
        "Arms that were declared before any of their runs existed, with the condition under which they might open the "
        "target. Look at errors and calibration together: instance normalisation can buy the one with the other."
    )
    return section("ablation", "Declared ablations", lead, blocks)


def _declaration(study: StudyFacts, content: Mapping[str, Any]) -> list[Block]:
    name, arms = content["name"], list(Declaration.recorded(content).arms)
    verdicts = [entry.content for entry in study.entries("verdict") if entry.content["declaration"] == name]
    opening = next((one for one in study.openings if one.purpose == f"declared: {name}"), None)
    settings = "; ".join(
        f"{arm}: {', '.join(f'{key}={value}' for key, value in content['arms'][arm].items()) or 'as locked'}"
        for arm in arms
    )
    told = f"{name} ({settings}). Condition: {content['condition']}. "
    told += (
        f"Verdict on source validation: it {'holds' if verdicts[-1]['holds'] else 'does not hold'}."
        if verdicts
        else "No verdict yet."
    )
    strayed = _strayed(verdicts[-1]) if verdicts else ""
    told += strayed
    holds = bool(verdicts) and verdicts[-1]["holds"] and not strayed
    tone: Tone = "good" if holds else "fair" if verdicts else "next"
    blocks: list[Block] = [Note(told, tone)]
    source = {arm: _source(study, name, arm) for arm in arms}
    target = {arm: opening.scores_of(f"{name}.{arm}") for arm in arms} if opening else {}
    if any(source.values()):
        blocks.append(_figure(name, source, target))
        blocks.append(_table(name, source, target))
    return blocks


def _strayed(verdict: Mapping[str, Any]) -> str:
    """Why nothing was opened although the condition may hold; empty if the control repeated the search."""
    found = {name: Drift(**drift) for name, drift in verdict.get("control_drift", {}).items()}
    far = [f"{name}: {drift}" for name, drift in found.items() if drift.share > 1.0]
    return f" Its control does not repeat the search, so the target stayed sealed: {'; '.join(far)}." if far else ""


def _source(study: StudyFacts, name: str, arm: str) -> list[Mapping[str, Any]]:
    """Bundles of the runs of one arm that have numbers, each with the word of the latent gate."""
    return [
        {**run.outcome["bundle"], "flag": flag_of(run)}
        for run in study.runs
        if run.candidate == f"{name}.{arm}" and has_numbers(run)
    ]


def _figure(name: str, source: Mapping[str, Any], target: Mapping[str, Any]) -> Figure:
    panels = [
        Dots(
            "Source validation", "RMSE (z-units)", RMSE_COMPONENTS,
            tuple((arm, number, tuple(Dot.over(one["components"][part] for one in bundles) for part in RMSE_COMPONENTS))
                  for number, (arm, bundles) in enumerate(source.items())),
        )
    ]  # fmt: skip
    if any(target.values()):
        for title, keys, reference in (
            ("Target: errors", ("rmse", "mae", "crps"), None),
            ("Target: share inside the 90 % interval", ("coverage90",), 0.9),
        ):  # fmt: skip
            series = tuple(
                (arm, number, tuple(Dot.over(one.get(key) for one in scores) for key in keys))
                for number, (arm, scores) in enumerate(target.items())
            )
            panels.append(Dots(title, "z-units" if reference is None else "share", keys, series, reference))
    legend = tuple((arm, number, "points") for number, arm in enumerate(source))
    caption = "Arms side by side: mean and range over seeds."
    return Figure(f"ablation-{name}", caption, tuple(panels), legend)


def _table(name: str, source: Mapping[str, Any], target: Mapping[str, Any]) -> ReportTable:
    rows = []
    for arm, bundles in source.items():
        row: dict[str, Any] = {"arm": arm, "seeds": len(bundles), "flagged": sum(bool(one["flag"]) for one in bundles)}
        for part in (*RMSE_COMPONENTS, "calibration"):
            row[part] = over_seeds([one["components"][part] for one in bundles])
        row["command_ratio"] = over_seeds([one["command_ratio"] for one in bundles])
        for key in _TARGET:
            row[f"target_{key}"] = over_seeds([one.get(key) for one in target.get(arm, [])])
        rows.append(row)
    heads = columns(
        ("arm", "arm", "text"), ("seeds", "seeds", "count"), ("flagged", "flagged", "count"),
        ("clean", "clean RMSE"), ("schema_drop", "schema-drop"),
        ("masked", "masked"), ("long_horizon", "worst horizon"), ("calibration", "calibration penalty"),
        ("command_ratio", "shuffled / true"), *((f"target_{key}", f"target {title}") for key, title in _TARGET.items()),
    )  # fmt: skip
    errors = tuple(f"target_{key}" for key in ("rmse", "mae", "crps", "nll"))
    lowest = (*RMSE_COMPONENTS, "calibration", *errors)
    caption = (
        f"{name}: source validation and target by arm, mean ± standard deviation over seeds; runs that the latent gate "
        "flagged count and are marked."
    )
    return ReportTable(f"ablation-{name}", caption, filled(heads, rows), tuple(rows), lowest=lowest)
