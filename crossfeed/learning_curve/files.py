"""A learning curve as files: JSON, CSV, Markdown, figures."""

import csv
from pathlib import Path

from crossfeed.atomic import atomic_file
from crossfeed.json_file import write_json
from crossfeed.learning_curve.figure import metric_table
from crossfeed.learning_curve.result import FILE, METRICS, LearningCurve
from crossfeed.show.figures import save_figure
from crossfeed.show.formats import markdown


def remarks(curve: LearningCurve) -> list[str]:
    """Crossings, what the numbers mean, what the fleet kept, and who could not take part where."""
    told = [f"{one.words}." for one in curve.crossings]
    kept: dict[str, list[str]] = {}
    for point in curve.points:
        if point.kept:
            kept.setdefault(point.kept, []).append(point.label)
    if kept:
        used = [f"{how} at {', '.join(map(_amount, at))}" for how, at in kept.items()]
        told.append(f"The fleet is used {'; '.join(used)}.")
    missing: dict[tuple[str, str], list[str]] = {}
    for point in curve.points:
        if point.remark:
            missing.setdefault((point.remark, point.label), []).append(point.model)
    said = [f"{', '.join(who)} at {_amount(label)}: {why}." for (why, label), who in missing.items()]
    return [*told, *curve.notes, *said]


def _amount(label: str) -> str:
    return label if label == "all" else f"{label} min"


def written(curve: LearningCurve) -> str:
    """The curve for a document: one table for each metric."""
    parts = [markdown(metric_table(curve, metric)) for metric in METRICS]
    said = "\n".join(f"- {remark}" for remark in remarks(curve))
    return "\n\n".join([*parts, said]) + "\n"


def write_curve(curve: LearningCurve, folder: Path) -> None:
    """Everything as files, each whole or not there."""
    write_json(folder / FILE, curve)
    rows = curve.rows()
    with atomic_file(folder / "curve.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    with atomic_file(folder / "curve.md") as temporary:
        temporary.write_text(written(curve), encoding="utf-8")
    figure = curve.plot()
    for ending in ("png", "svg"):
        save_figure(figure, folder / f"curve.{ending}")
