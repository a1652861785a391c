"""A learning curve to read and to keep: tables with one column for each number of minutes, CSV, Markdown, figures."""

import csv
from collections.abc import Sequence
from pathlib import Path

from crossfeed.atomic import atomic_file
from crossfeed.grid import Grid
from crossfeed.json_file import write_sealed
from crossfeed.learning_curve.result import FILE, METRICS, CurvePoint, LearningCurve
from crossfeed.plots import save_figure

MISSING = "-"
_LOWEST = ("crps", "rmse", "mae", "nll")


def grids(curve: LearningCurve, metrics: Sequence[str] = ("crps", "coverage90")) -> list[Grid]:
    """Some metrics by minutes (files have the others), then from when on each model is better than the fleet."""
    titles = {metric: f"{METRICS[metric]} on {curve.machine} after so many minutes of own logs" for metric in metrics}
    pages = [_grid(curve, metric, title, "") for metric, title in titles.items()]
    return [*pages, Grid("", (), [], tuple(remarks(curve)))]


def _grid(curve: LearningCurve, metric: str, title: str, corner: str) -> Grid:
    """One row for each model, one column for each number of minutes."""
    points = [[curve.point(model, label) for label in curve.labels] for model in curve.models]
    rows = [[model, *(_cell(point, metric) for point in row)] for model, row in zip(curve.models, points, strict=True)]
    best = {
        (number, column)
        for number, row in enumerate(points)
        for column, point in enumerate(row, start=1)
        if metric in _LOWEST and point.mean.get(metric) == curve.best(metric, point.label) is not None
    }
    return Grid(title, (corner, *curve.labels), rows, best=best)


def _cell(point: CurvePoint, metric: str) -> str:
    value, spread = point.mean.get(metric), point.spread.get(metric)
    if value is None:
        return MISSING
    text = f"{value:.2f}" if metric in ("nll", "coverage90") or abs(value) >= 100 else f"{value:.3f}"
    return text + (f" ±{spread:.3f}" if spread is not None and metric in ("crps", "rmse", "mae") else "")


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


def markdown(curve: LearningCurve) -> str:
    """The curve for a document: one table for each metric."""
    parts = [_grid(curve, metric, title, "minutes of own logs").markdown() for metric, title in METRICS.items()]
    said = "\n".join(f"- {remark}" for remark in remarks(curve))
    return "\n\n".join([*parts, said]) + "\n"


def write_curve(curve: LearningCurve, folder: Path) -> None:
    """Everything as files, each whole or not there."""
    write_sealed(folder / FILE, curve)
    rows = curve.rows()
    with atomic_file(folder / "curve.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    with atomic_file(folder / "curve.md") as temporary:
        temporary.write_text(markdown(curve), encoding="utf-8")
    figure = curve.plot()
    for ending in ("png", "svg"):
        save_figure(figure, folder / f"curve.{ending}")
