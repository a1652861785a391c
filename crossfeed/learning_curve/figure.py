"""A learning curve as tables and as one figure: the error and the share inside the 90 % intervals over minutes."""

import math
from collections.abc import Sequence

from crossfeed.learning_curve.result import METRICS, LearningCurve
from crossfeed.show.figures import COLOURS, XY, Figure, Line
from crossfeed.show.tables import Column, ResultTable, columns

_LOWEST = ("crps", "rmse", "mae", "nll")
_CLOSEST = 0.12  # decades between two ticks that both have room for a word
_HIGHEST = 4.0  # times the largest error of the best: what is above is cut off, and said


def positions(curve: LearningCurve) -> dict[float, float]:
    """Where each number of minutes stands: over its logarithm, and 0 half a decade before the first of the others."""
    minutes = [point.minutes for point in curve.points]
    above = [math.log10(one) for one in minutes if one > 0]
    zero = min(above, default=0.0) - 0.5
    return {one: math.log10(one) if one > 0 else zero for one in minutes}


def ticks(curve: LearningCurve) -> tuple[tuple[float, str], ...]:
    """Each number of minutes at its position; `all` makes room where it would stand upon its neighbour."""
    minutes = {point.label: point.minutes for point in curve.points}
    position = positions(curve)
    found: list[tuple[float, str]] = []
    for label, one in sorted(minutes.items(), key=lambda item: item[1]):
        if found and position[one] - found[-1][0] < _CLOSEST:
            found[-1] = (found[-1][0], f"{found[-1][1]}, {label}")
        else:
            found.append((position[one], label))
    return tuple(found)


def highest(curve: LearningCurve, metric: str) -> float | None:
    """Above which error a line leaves the picture, so that one model without a clue does not flatten all others."""
    known = [value for label in curve.labels if (value := curve.best(metric, label)) is not None]
    return _HIGHEST * max(known) if known and min(known) > 0 else None


def figure(curve: LearningCurve, metrics: Sequence[str] = ("crps", "rmse", "coverage90")) -> Figure:
    """One panel for each metric, one line for each model."""
    colours = {model: number % len(COLOURS) for number, model in enumerate(curve.models)}
    panels, cut = [], dict[str, None]()
    for metric in metrics:
        top = None if metric == "coverage90" else highest(curve, metric)
        lines = tuple(_line(curve, model, metric, colour, top) for model, colour in colours.items())
        cut |= dict.fromkeys(line.name for line in lines if top and _above(curve, line.name, metric, top))
        share = metric == "coverage90"
        title = "inside the 90 % intervals" if share else f"{METRICS[metric]} on {curve.machine}"
        y_label = "share" if share else f"{METRICS[metric]} (z-units)"
        panels.append(
            XY(title, "minutes of own logs", y_label, lines, level=(0.9, "nominal") if share else None,
               from_zero=not share, ticks=ticks(curve), highest=top)
        )  # fmt: skip
    caption = "Mean over seeds after so many minutes of own logs"
    caption += f"; far above the best and cut off: {', '.join(cut)}." if cut else "."
    return Figure("curve", caption, tuple(panels), tuple((model, colour, "line") for model, colour in colours.items()))


def _line(curve: LearningCurve, model: str, metric: str, colour: int, top: float | None) -> Line:
    position, points = positions(curve), [curve.point(model, label) for label in curve.labels]
    values = [point.mean.get(metric) for point in points]
    shown = [None if value is None or (top is not None and value > top) else value for value in values]
    return Line(model, [position[point.minutes] for point in points], shown, colour, "marked")


def _above(curve: LearningCurve, model: str, metric: str, top: float) -> bool:
    values = (curve.point(model, label).mean.get(metric) for label in curve.labels)
    return any(value is not None and value > top for value in values)


def metric_table(curve: LearningCurve, metric: str) -> ResultTable:
    """One row for each model, one column for each number of minutes."""
    rows = []
    for model in curve.models:
        points = [curve.point(model, label) for label in curve.labels]
        values = [{"estimate": point.mean.get(metric), "spread": point.spread.get(metric)} for point in points]
        rows.append({"model": model, **dict(zip(curve.labels, values, strict=True))})
    labels = tuple(Column(label, label, "share" if metric == "coverage90" else "number") for label in curve.labels)
    return ResultTable(
        f"curve-{metric}", f"{METRICS[metric]} on {curve.machine} after so many minutes of own logs",
        (Column("model", "minutes of own logs", "text"), *labels), tuple(rows),
        lowest=curve.labels if metric in _LOWEST else (),
    )  # fmt: skip


def points_table(curve: LearningCurve) -> ResultTable:
    """Every model after so many minutes, with all that was measured."""
    rows = tuple(
        {**row, "minutes": row["minutes"] if row["label"] != "all" else round(row["minutes"], 1)}
        for row in curve.rows()
    )
    heads = columns(
        ("model", "model", "text"), ("minutes", "minutes"), ("seeds", "seeds", "count"), ("crps", "CRPS"),
        ("rmse", "RMSE"), ("mae", "MAE"), ("nll", "NLL"), ("coverage90", "in 90 %", "share"),
        ("seconds", "training", "seconds"), ("kept", "fleet", "text"), ("remark", "remark", "text"),
    )  # fmt: skip
    caption = f"Every model after so many minutes; {curve.windows:,} windows of {curve.sessions} sessions."
    return ResultTable("curve", caption, heads, rows, folded=True)
