"""Several plans in one picture: fans of the chosen sensors, the commands below, energy at the side.

It reads the content of a forecast.json, so a stored forecast can be drawn again.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crossfeed.plots import COLOURS, new_figure, printed_unit
from crossfeed.serving.energy_panel import draw_differences, draw_energy
from crossfeed.serving.result import WhatIfResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAST = "#444444"
_MOST_SENSORS = 4
# Quantities in the order in which a figure needs them, and how many sensors of each.
_PREFERRED = {"power": 2, "torque": 1, "temperature": 1, "current": 1, "load": 1}


def what_if_figure(answer: WhatIfResult, channels: Sequence[str] = ()) -> "Figure":
    """The figure itself, for a notebook."""
    sensors = list(channels) or main_sensors(answer)
    commands = _command_rows(answer)
    heights = [1.5] * len(sensors) + [0.75] * len(commands)
    with new_figure(11.5, 1.3 + sum(heights)) as figure:
        columns = figure.add_gridspec(1, 2, width_ratios=(4.4, 1.0), wspace=0.02)
        rows: Any = (
            columns[0]
            .subgridspec(len(heights), 1, height_ratios=heights, hspace=0.06)
            .subplots(sharex=True, squeeze=False)
        )
        for axes, sensor in zip(rows[:, 0], sensors):
            _draw_sensor(axes, answer, sensor)
        for axes, (label, unit, names) in zip(rows[len(sensors) :, 0], commands):
            _draw_command(axes, answer, label, unit, names)
        rows[-1, 0].set_xlabel("seconds from now")
        _draw_side(figure, columns[1], answer)
        _title(figure, rows[0, 0], answer)
        figure.align_ylabels(list(rows[:, 0]))
        return figure


def main_sensors(answer: WhatIfResult) -> list[str]:
    """The sensors to show when none were named: those with a limit, then powers, a torque, a temperature."""
    peaks = next(iter(answer.plans.values())).peaks
    limited = [name for name, peak in peaks.items() if peak.limit is not None]
    preferred = []
    spindle_first = sorted(answer.sensors, key=lambda name: not name.startswith("spindle"))
    for quantity, count in _PREFERRED.items():
        preferred += [name for name in spindle_first if answer.sensors[name].quantity == quantity][:count]
    chosen = list(dict.fromkeys([*limited, *preferred])) or list(answer.sensors)
    return chosen[: max(_MOST_SENSORS, len(limited))]


def _command_rows(answer: WhatIfResult) -> list[tuple[str, str, list[str]]]:
    """One panel per command; the feeds of several axes share one, as the speed along the path."""
    rows: list[tuple[str, str, list[str]]] = []
    feeds = [name for name, command in answer.commands.items() if command.quantity == "feed"]
    for name, command in answer.commands.items():
        if name not in feeds or len(feeds) == 1:
            rows.append((_words(name), command.unit, [name]))
        elif name == feeds[0]:
            rows.append(("path feed", command.unit, feeds))
    return rows


def _draw_sensor(axes: Any, answer: WhatIfResult, sensor: str) -> None:
    past, rows = answer.history, _rows_shown(answer)
    axes.plot(past.time[rows], _floats(past.sensors[sensor])[rows], color=_PAST, linewidth=1.1)
    truths = [plan.truth for plan in answer.plans.values() if plan.truth]
    for plan, colour in zip(answer.plans.values(), _colours(answer)):
        quantiles = {level: _floats(values) for level, values in plan.sensors[sensor].quantiles.items()}
        # The fan opens at the last measured value, so that the eye finds the moment of the forecast.
        now = _floats(past.sensors[sensor])[-1:]
        quantiles = {level: np.concatenate([now, values]) for level, values in quantiles.items()}
        time = np.append(0.0, _floats(plan.time))
        axes.fill_between(time, quantiles["0.05"], quantiles["0.95"], color=colour, alpha=0.13, linewidth=0)
        axes.fill_between(time, quantiles["0.25"], quantiles["0.75"], color=colour, alpha=0.25, linewidth=0)
        axes.plot(time, quantiles["0.5"], color=colour, linewidth=1.3)
        axes.plot(time[-1:], quantiles["0.5"][-1:], "|", color=colour, markersize=7, markeredgewidth=1.6)
        if plan.truth:
            axes.plot(time[1:], _floats(plan.truth[sensor]), color="#000000", linewidth=0.9, linestyle=(0, (1, 1)))
    first = next(iter(answer.plans.values()))
    limit = first.peaks[sensor].limit
    if limit is not None:
        axes.axhline(limit, color="#b00020", linewidth=0.9, linestyle="--")
        axes.annotate(
            f"limit {limit:g}", (1.0, limit), xycoords=("axes fraction", "data"), xytext=(-3, 2),
            textcoords="offset points", ha="right", va="bottom", fontsize=7.5, color="#b00020",
        )  # fmt: skip
    axes.set_ylabel(f"{_words(sensor)}\nin {printed_unit(answer.sensors[sensor].unit)}")
    _frame(axes, answer)
    _focus(axes, answer, sensor, truths)


def _focus(axes: Any, answer: WhatIfResult, sensor: str, truths: list[Any]) -> None:
    """Let past, truth, medians and nine tenths of the fan set the scale; a start-up peak may run off the panel."""
    shown = [
        _floats(answer.history.sensors[sensor])[_rows_shown(answer)],
        *(_floats(truth[sensor]) for truth in truths),
    ]
    for plan in answer.plans.values():
        quantiles = {level: _floats(values) for level, values in plan.sensors[sensor].quantiles.items()}
        shown += [
            quantiles["0.5"],
            np.quantile(quantiles["0.05"], [0.1, 1.0]),
            np.quantile(quantiles["0.95"], [0.0, 0.9]),
        ]
        if plan.peaks[sensor].limit is not None:
            shown.append(np.array([plan.peaks[sensor].limit]))
    values = np.concatenate(shown)
    low, high = np.nanmin(values), np.nanmax(values)
    margin = 0.08 * max(high - low, 1e-9)
    axes.set_ylim(low - margin, high + margin)


def _draw_command(axes: Any, answer: WhatIfResult, label: str, unit: str, names: list[str]) -> None:
    past, rows = answer.history, _rows_shown(answer)
    axes.step(past.time[rows], _joined(past.commands, names)[rows], where="pre", color=_PAST, linewidth=1.0)
    for plan, colour in zip(answer.plans.values(), _colours(answer)):
        time, values = _floats(plan.time), _joined(plan.commands, names)
        axes.step(np.append(0.0, time), np.append(values[:1], values), where="pre", color=colour, linewidth=1.1)
    if len(names) > 1:
        # Rapids are many times faster than cuts; under a root both can be seen.
        axes.set_yscale("function", functions=(_root, np.square))
        axes.set_ylim(bottom=0.0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel(f"{label}\nin {unit}", fontsize=8)
    _frame(axes, answer)


def _frame(axes: Any, answer: WhatIfResult) -> None:
    axes.axvline(0.0, color="#888888", linewidth=0.8)
    longest = max(plan.duration for plan in answer.plans.values())
    axes.set_xlim(-_looked_back(answer), longest * 1.01)
    axes.tick_params(labelsize=8)


def _looked_back(answer: WhatIfResult) -> float:
    """How many seconds of the past are shown: less than half of what is to come."""
    longest = max(plan.duration for plan in answer.plans.values())
    return float(min(-answer.history.time[0], 0.4 * longest + answer.history.period))


def _rows_shown(answer: WhatIfResult) -> slice:
    """The rows of the past that a panel shows; what lies before them must not set its scale."""
    return slice(int(np.searchsorted(answer.history.time, -_looked_back(answer) - 1e-6)), None)


def _draw_side(figure: Any, place: Any, answer: WhatIfResult) -> None:
    """Energy of each plan and, with several, the paired differences; nothing where there is no power."""
    names, colours = list(answer.plans), _colours(answer)
    if all(plan.energy is None for plan in answer.plans.values()):
        return
    inches = [0.35 + 0.45 * len(names), 0.35 + 0.45 * len(answer.comparisons)]
    rest = max(figure.get_figheight() - 1.6 - sum(inches), 0.1)
    cells = place.subgridspec(3, 1, height_ratios=(*inches, rest), hspace=0.12)
    draw_energy(figure.add_subplot(cells[0]), answer, colours)
    if answer.comparisons:
        draw_differences(figure.add_subplot(cells[1]), answer, dict(zip(names, colours)))


def _title(figure: Any, axes: Any, answer: WhatIfResult) -> None:
    from matplotlib.lines import Line2D

    figure.suptitle(answer.title, fontsize=10, x=0.01, ha="left")
    handles = [
        Line2D([], [], color=colour, linewidth=3, label=name) for name, colour in zip(answer.plans, _colours(answer))
    ]
    handles.append(Line2D([], [], color=_PAST, label="measured"))
    if any(plan.truth for plan in answer.plans.values()):
        handles.append(Line2D([], [], color="#000000", linestyle=(0, (1, 1)), label="what really followed"))
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=min(len(handles), 5), fontsize=8,
        borderaxespad=0.2, columnspacing=1.4, handlelength=1.4,
    )  # fmt: skip


def _colours(answer: WhatIfResult) -> list[str]:
    return [COLOURS[number % (len(COLOURS) - 1)] for number in range(len(answer.plans))]


def _joined(columns: Mapping[str, Any], names: Sequence[str]) -> np.ndarray:
    """One command, or the length of the vector of several."""
    values = [_floats(columns[name]) for name in names]
    return values[0] if len(values) == 1 else np.asarray(np.sqrt(np.sum(np.square(values), axis=0)))


def _root(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.maximum(values, 0.0)))


def _floats(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def _words(name: str) -> str:
    return name.replace("_", " ")
