"""An evaluation to read and to look at: the verdict on every channel first, the numbers behind it after."""

from typing import TYPE_CHECKING, Any

import numpy as np

from crossfeed.evaluation.statistics import Interval
from crossfeed.evaluation.verdict import COVERAGE, ChannelVerdict
from crossfeed.grid import Grid, plural
from crossfeed.plots import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from crossfeed.evaluation.result import Evaluation

WORDS = {"good": "yes", "fair": "with care", "bad": "no", "unknown": "cannot be said"}
_LIGHTS = {"good": "#2e7d32", "fair": "#e69f00", "bad": "#c62828", "unknown": "#888888"}
_HEADLINE = {"rmse": "RMSE", "mae": "MAE", "skill_rmse": "skill", "crps": "CRPS", "coverage90": "inside 90 %"}


def grids(found: "Evaluation") -> list[Grid]:
    """The verdict on each model, then models and floors side by side."""
    where = "" if found.table is None else f" on {', '.join(found.table.machines)}"
    pages = []
    for model in found.models:
        verdict = found.verdict(model)
        rows = [
            [one.channel, WORDS[one.light], "; ".join(one.reasons), _estimate(one.skill), _estimate(one.coverage)]
            for one in verdict.channels
        ]
        columns = ("channel", "trust it?", "why", "skill", "inside 90 %")
        pages.append(Grid(f"May {model} be trusted{where}? {verdict.answer}", columns, rows, words=3))
    rows = [[name, *(_number(metrics.get(key)) for key in _HEADLINE)] for name, metrics in found.scores.items()]
    title = f"{found.windows:,} windows of {plural(len(found.runs), found.unit)}, in standard deviations of the source"
    remarks = [f"left out: {name}: {why}" for name, why in found.excluded.items()]
    return [*pages, Grid(title, ("", *_HEADLINE.values()), rows, remarks)]


def with_verdict(found: "Evaluation", rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Channel rows with the judgement on them where there is one: yes, with care, no, cannot be said."""
    trust = {(model, one.channel): WORDS[one.light] for model in found.models for one in found.verdict(model).channels}
    return [{**row, "trust": trust.get((row["forecaster"], row["channel"]))} for row in rows]


def figure(found: "Evaluation", model: str) -> "Figure":
    """Skill over the last value, coverage of the 90 % intervals, and RMSE by horizon."""
    channels = found.verdict(model).channels
    with new_figure(11.5, max(2.6, 0.9 + 0.26 * len(channels))) as drawn:
        skill, coverage, horizon = drawn.subplots(1, 3, width_ratios=(1.3, 1.0, 1.2))
        _by_channel(skill, channels, "skill")
        skill.axvline(0.0, color="#888888", linewidth=0.8)
        skill.set_title("skill over the last value, repeated", fontsize=9, loc="left")
        skill.set_yticks(range(len(channels)), [one.channel.replace("_", " ") for one in channels])
        _by_channel(coverage, channels, "coverage")
        coverage.axvspan(*COVERAGE, color="#888888", alpha=0.15, linewidth=0)
        coverage.set_title("share inside the 90 % intervals", fontsize=9, loc="left")
        coverage.set_yticks([])
        _by_horizon(horizon, found, model)
        drawn.suptitle(found.verdict(model).answer, fontsize=9, x=0.01, ha="left")
        return drawn


def _by_channel(axes: Any, channels: tuple[ChannelVerdict, ...], what: str) -> None:
    for row, one in enumerate(channels):
        interval: Interval | None = getattr(one, what)
        if interval is None or interval.estimate is None:
            continue
        colour = _LIGHTS[one.light]
        if interval.low is not None and interval.high is not None:
            axes.plot([interval.low, interval.high], [row, row], color=colour, linewidth=2.0)
        axes.plot(interval.estimate, row, "o", color=colour, markersize=5)
    axes.set_ylim(len(channels) - 0.5, -0.5)


def _by_horizon(axes: Any, found: "Evaluation", model: str) -> None:
    """One line per forecaster; the model stands out."""
    for number, (name, rows) in enumerate(found.by_horizon.items()):
        seconds = [int(label) * found.period for label in rows]
        errors = [np.nan if row["rmse"] is None else row["rmse"] for row in rows.values()]
        width = 2.0 if name == model else 0.9
        axes.plot(seconds, errors, marker=".", linewidth=width, color=COLOURS[number % len(COLOURS)], label=name)
    axes.set_title("RMSE in standard deviations of the source", fontsize=9, loc="left")
    axes.set_xlabel("seconds ahead")
    axes.set_ylim(bottom=0.0)
    axes.legend(fontsize=7.5)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _estimate(interval: Interval | None) -> str:
    if interval is None or interval.estimate is None:
        return "-"
    bounds = "" if interval.low is None else f" ({interval.low:.2f} to {interval.high:.2f})"
    return f"{interval.estimate:.2f}{bounds}"
