"""The learning curve as a figure: the error, and the share inside the 90 % intervals, over minutes of own logs."""

import math
from typing import TYPE_CHECKING, Any

from crossfeed.learning_curve.result import METRICS, LearningCurve
from crossfeed.model.locate import FLEET
from crossfeed.plots import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
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


def draw(curve: LearningCurve, metric: str) -> "Figure":
    """The error of every model, with dotted lines where one overtakes the fleet for good, and the coverage."""
    with new_figure(10.5, 4.0) as drawn:
        error, coverage = drawn.subplots(1, 2, width_ratios=(1.6, 1.0))
        top = highest(curve, metric)
        cut = []
        for number, model in enumerate(curve.models):
            values = _line(error, curve, model, metric, number)
            cut += [model] if top is not None and any(value > top for value in values) else []
            _line(coverage, curve, model, "coverage90", number)
        _crossings(error, curve)
        told = f", above {top:.2g} cut off: {', '.join(cut)}" if cut and top is not None else ""
        error.set_title(f"{METRICS[metric]} in standard deviations of the own logs{told}", fontsize=9, loc="left")
        if top is not None:
            error.set_ylim(0.0, min(top, error.get_ylim()[1]))
        coverage.set_title("share inside the 90 % intervals", fontsize=9, loc="left")
        coverage.axhline(0.9, color="#888888", linewidth=0.8, linestyle=(0, (2, 3)))
        coverage.set_ylim(0.0, 1.0)
        for axes in (error, coverage):
            axes.set_xticks(*zip(*ticks(curve)))
            axes.set_xlabel(f"minutes of own logs of {curve.machine}", parse_math=False)
        error.legend(fontsize=8, ncols=2)
        return drawn


def _line(axes: Any, curve: LearningCurve, model: str, metric: str, number: int) -> list[float]:
    points = [point for point in curve.points if point.model == model and point.mean.get(metric) is not None]
    position = positions(curve)
    values = [float(point.mean[metric] or 0.0) for point in points]
    spreads = [point.spread.get(metric) or 0.0 for point in points]
    first = model == FLEET
    axes.errorbar(
        [position[point.minutes] for point in points], values, spreads if any(spreads) else None, label=model,
        color=COLOURS[number % len(COLOURS)], marker=_MARKERS[number % len(_MARKERS)], markersize=4.5,
        linewidth=2.2 if first else 1.2, zorder=3 if first else 2, capsize=2.0,
    )  # fmt: skip
    return values


def _crossings(axes: Any, curve: LearningCurve) -> None:
    position = positions(curve)
    for one in curve.crossings:
        if one.about is not None and one.after is not None:
            number = curve.models.index(one.model)
            known = sorted(position)
            low = position[max(minute for minute in known if minute <= one.about)]
            x = math.log10(one.about) if one.about > 0 else low
            axes.axvline(max(x, low), color=COLOURS[number % len(COLOURS)], linewidth=0.9, linestyle=(0, (1, 2)))
