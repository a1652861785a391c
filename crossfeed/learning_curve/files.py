"""A learning curve to read and to keep: tables with one column for each number of minutes, CSV, Markdown, figures."""

import csv
from pathlib import Path

from crossfeed.atomic import atomic_file
from crossfeed.grid import Grid
from crossfeed.json_file import write_json
from crossfeed.learning_curve.result import FILE, METRICS, CurvePoint, LearningCurve
from crossfeed.plots import save_figure

MISSING = "-"
_LOWEST = ("crps", "rmse", "mae", "nll")
_SHOWN = ("crps", "coverage90")  # the others stand in the files


def grids(curve: LearningCurve) -> list[Grid]:
    """CRPS and coverage by minutes, then from when on each model is better than the fleet."""
    pages = []
    for metric in _SHOWN:
        title = f"{METRICS[metric]} on {curve.machine} after so many minutes of own logs"
        pages.append(Grid(title, ("", *curve.labels), cells(curve, metric, ("", ""))))
    return [*pages, Grid("", (), [], tuple(remarks(curve)))]


def cells(curve: LearningCurve, metric: str, bold: tuple[str, str]) -> list[list[str]]:
    """One row for each model; the best error of each column between the `bold` marks."""
    return [
        [model, *(_cell(curve, curve.point(model, label), metric, bold) for label in curve.labels)]
        for model in curve.models
    ]


def _cell(curve: LearningCurve, point: CurvePoint, metric: str, bold: tuple[str, str]) -> str:
    value, spread = point.mean.get(metric), point.spread.get(metric)
    if value is None:
        return MISSING
    text = f"{value:.2f}" if metric in ("nll", "coverage90") or abs(value) >= 100 else f"{value:.3f}"
    text += f" ±{spread:.3f}" if spread is not None and metric in ("crps", "rmse", "mae") else ""
    best = metric in _LOWEST and value == curve.best(metric, point.label)
    return f"{bold[0]}{text}{bold[1]}" if best else text


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
    parts = []
    for metric, title in METRICS.items():
        lines = [
            ["minutes of own logs", *curve.labels],
            ["---"] * (1 + len(curve.labels)),
            *cells(curve, metric, ("**", "**")),
        ]
        parts += [f"### {title}", "\n".join("| " + " | ".join(line) + " |" for line in lines)]
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
        temporary.write_text(markdown(curve), encoding="utf-8")
    figure = curve.plot()
    for ending in ("png", "svg"):
        save_figure(figure, folder / f"curve.{ending}")
