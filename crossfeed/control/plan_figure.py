"""One picture of an advice: the knobs along the program, and every limited load before and after."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.control.decision import Decision
from crossfeed.control.score import Score
from crossfeed.plots import COLOURS, new_figure, save_figure
from crossfeed.serving.measures import sample_quantiles

_SHADES = {"faster": COLOURS[2], "slower": COLOURS[1]}


def draw_advice(path: Path | str, content: Mapping[str, Any], score: Score, decision: Decision) -> None:
    """Write the figure as PNG, SVG or PDF."""
    timeline = score.forecast.timeline
    time_T = np.arange(len(timeline)) * timeline.period
    sensors = list(score.highest) or list(score.forecast.paths)[:1]
    with new_figure(11.0, 2.6 + 2.1 * len(sensors)) as figure:
        axes = figure.subplots(1 + len(sensors), 1, sharex=True, squeeze=False)[:, 0]
        top: Any = axes[0]
        top.step(time_T, 100.0 * decision.feed_T, where="post", label="feed", color=COLOURS[0], linewidth=1.5)
        if score.task.spindle.free:
            top.step(time_T, 100.0 * decision.spindle_T, where="post", label="spindle", color=COLOURS[3])
        top.axhline(100.0, color="#888888", linewidth=0.8)
        top.set_ylabel("override in %")
        _shade(top, decision, timeline.period)
        top.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
        top.set_title(f"{content['program']} on {content['history']['machine']}: {content['verdict']}", loc="left")
        for panel, sensor in zip(axes[1:], sensors):
            _loads(panel, sensor, score, decision, time_T)
        axes[-1].set_xlabel("position in the program as written, s")
        save_figure(figure, path)


def _shade(axes: Any, decision: Decision, period: float) -> None:
    """Behind the knobs: where it acts, and to which end."""
    named: set[str] = set()
    for choice in decision.choices:
        if choice.verdict in _SHADES:
            label = None if choice.verdict in named else choice.verdict
            named.add(choice.verdict)
            ends = (choice.first * period, (choice.last + 1) * period)
            axes.axvspan(*ends, color=_SHADES[choice.verdict], alpha=0.15, linewidth=0, label=label)


def _loads(axes: Any, sensor: str, score: Score, decision: Decision, time_T: np.ndarray) -> None:
    path_ST = score.forecast.paths[sensor]
    low_T, middle_T, high_T = sample_quantiles(path_ST, (0.05, 0.5, 0.95))
    axes.fill_between(time_T, low_T, high_T, color="#444444", alpha=0.18, linewidth=0, label="as written, 90 %")
    axes.plot(time_T, middle_T, color="#444444", label="as written")
    planned = score.peaks(decision.feed_T, decision.spindle_T).get(sensor)
    if planned is not None:
        shown_T = np.where(score.forecast.timeline.cutting, planned, np.nan)
        axes.plot(time_T, shown_T, color=COLOURS[0], label="planned, cautious")
        highest_T = score.highest[sensor]
        axes.step(
            time_T, np.where(np.isfinite(highest_T), highest_T, np.nan), where="post", color=COLOURS[1], label="limit"
        )
        top = float(np.nanmax(np.where(np.isfinite(highest_T), highest_T, np.nan)))
        # Braking spindles reach far below; what matters lies between nothing and the limit.
        axes.set_ylim(bottom=max(min(0.0, float(low_T.min())), -0.3 * top), top=1.6 * top)
    axes.set_ylabel(f"{sensor}\nin {score.schema.channel(sensor).unit}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
