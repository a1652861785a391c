"""A forecast as columns, as a table to read and as a figure.

W windows, H horizons, C sensors.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crossfeed.errors import ConfigError
from crossfeed.model.forecast import ShownCommand
from crossfeed.show.figures import COLOURS, new_figure, printed_unit
from crossfeed.show.tables import ResultTable, plain_table, significant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from crossfeed.model.forecast import Forecast
    from crossfeed.schema import Schema

_MOST_PANELS, _MOST_COMMANDS = 6, 2
_PAST = "#444444"


def columns(forecast: "Forecast", levels: Sequence[float]) -> dict[str, Any]:
    """One entry per window, horizon and sensor in each column."""
    shape = forecast.mean.shape if forecast.mean.ndim == 3 else (1, *forecast.mean.shape)
    window, horizon, sensor = (axis.ravel() for axis in np.indices(shape))
    rows_ahead = np.array(forecast.horizons)[horizon]
    quantiles = dict(zip(levels, forecast.quantiles(levels))) if levels else {}
    return {
        "window": window,
        "horizon": rows_ahead,
        **({"seconds": rows_ahead * forecast.period} if forecast.period is not None else {}),
        "sensor": np.array(forecast.sensors)[sensor],
        **({"unit": np.array(forecast.units)[sensor]} if forecast.units else {}),
        "measured": np.isin(np.array(forecast.sensors), forecast.measured)[sensor],
        "mean": forecast.mean.ravel(),
        "median": forecast.median.ravel(),
        "standard_deviation": forecast.standard_deviation.ravel(),
        **{f"q{level:g}": values.ravel() for level, values in quantiles.items()},
    }


def table(forecast: "Forecast") -> ResultTable:
    """Median and central 90 % interval of every measured sensor at every horizon; for many windows what there is."""
    period = forecast.period
    ahead = [f"{rows} rows" if period is None else f"{rows * period:g} s" for rows in forecast.horizons]
    if forecast.mean.ndim == 3:
        return plain_table(
            f"Forecasts of {forecast.mean.shape[0]:,} windows, {len(forecast.measured)} measured sensors, "
            f"{', '.join(ahead)} ahead",
            (), (), ("See to_pandas(), to_polars(), mean, median, quantile(0.9) and interval(0.9).",),
        )  # fmt: skip
    low_HC, high_HC = forecast.interval(0.9)
    rows = []
    for name in forecast.measured:
        column = forecast.sensors.index(name)
        values = zip(forecast.median[:, column], low_HC[:, column], high_HC[:, column])
        cells = [f"{significant(median)}\n{significant(low)} to {significant(high)}" for median, low, high in values]
        rows.append([name, _unit(forecast, column), *cells])
    absent = [name for name in forecast.sensors if name not in forecast.measured]
    remarks = [f"not measured in the history, so not shown: {', '.join(absent)}"] if absent else []
    remarks += [f"warning: {told}" for told in (forecast.shown.warnings if forecast.shown is not None else ())]
    where = f"{forecast.shown.title}: " if forecast.shown is not None and forecast.shown.title else "Forecast: "
    return plain_table(
        f"{where}median, and below it the interval that holds 90 %",
        ("sensor", "unit", *ahead),
        rows,
        remarks,
        words=2,
    )


def figure(forecast: "Forecast", sensors: Sequence[str] = ()) -> "Figure":
    """One panel per sensor: measured rows, then median and intervals at each horizon."""
    if forecast.mean.ndim == 3:
        raise ConfigError(
            f"A figure shows one window, not {forecast.mean.shape[0]}.", expected="the forecast of one history"
        )
    unknown = [name for name in sensors if name not in forecast.measured]
    if unknown:
        raise ConfigError(
            f"The forecast does not show '{unknown[0]}'.", expected=f"some of {', '.join(forecast.measured)}"
        )
    spindle_first = sorted(forecast.measured, key=lambda name: not name.startswith("spindle"))
    chosen = list(sensors) or spindle_first[:_MOST_PANELS]
    commands = _telling(forecast.shown.commands if forecast.shown is not None else ())
    across = 1 if len(chosen) <= 2 else 2
    down = -(-len(chosen) // across)
    heights = [1.9] * down + [0.9] * -(-len(commands) // across)
    with new_figure(5.2 * across, 0.8 + sum(heights)) as drawn:
        panels: Any = drawn.subplots(len(heights), across, sharex=True, squeeze=False, height_ratios=heights)
        for axes, name in zip(panels[:down].ravel(), chosen):
            _panel(axes, forecast, name)
        for axes, command in zip(panels[down:].ravel(), commands):
            _command_panel(axes, command, forecast.period or 1.0)
        empty = [*panels[:down].ravel()[len(chosen) :], *panels[down:].ravel()[len(commands) :]]
        for axes in empty:
            axes.remove()
        for column in panels.T:
            lowest = [axes for axes in column if axes not in empty][-1]
            lowest.tick_params(labelbottom=True)
            lowest.set_xlabel("rows from now" if forecast.period is None else "seconds from now")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        title = forecast.shown.title if forecast.shown is not None else ""
        drawn.legend(
            handles, labels, loc="outside upper left", fontsize=8, ncols=5, title=title or None, title_fontsize=10,
            alignment="left",
        )  # fmt: skip
        return drawn


def _panel(axes: Any, forecast: "Forecast", name: str) -> None:
    step, column = forecast.period or 1.0, forecast.sensors.index(name)
    time = np.array(forecast.horizons) * step
    levels = {level: forecast.quantile(level)[:, column] for level in (0.05, 0.25, 0.5, 0.75, 0.95)}
    if forecast.shown is not None:
        past = forecast.shown.past[:, column]
        axes.plot(np.arange(1 - len(past), 1) * step, past, color=_PAST, label="measured")
        if forecast.shown.truth is not None:
            truth = forecast.shown.truth[: max(forecast.horizons), column]
            axes.plot((np.arange(len(truth)) + 1) * step, truth, color="#000000", linewidth=0.9, label="what followed")
    # Bars, not bands: nothing is said about the rows between two horizons.
    axes.vlines(time, levels[0.05], levels[0.95], color=COLOURS[0], alpha=0.35, linewidth=2.0, label="90 %")
    axes.vlines(time, levels[0.25], levels[0.75], color=COLOURS[0], alpha=0.6, linewidth=4.5, label="50 %")
    axes.plot(time, levels[0.5], ".:", color=COLOURS[0], linewidth=0.7, markersize=5, label="median")
    axes.axvline(0.0, color="#888888", linewidth=0.8)
    axes.set_title(
        f"{name.replace('_', ' ')} in {printed_unit(_unit(forecast, column))}".removesuffix(" in "),
        fontsize=9,
        loc="left",
    )


def shown_commands(schema: "Schema", past_KA: np.ndarray, planned_TA: np.ndarray) -> tuple[ShownCommand, ...]:
    """The commands as a figure shows them: feeds of several axes are one path speed."""
    found = []
    for members in schema.command_groups:
        first = schema.commands[members[0]]
        label = f"path {first.quantity}" if len(members) > 1 else first.name.replace("_", " ")
        past_K, planned_T = (
            np.linalg.norm(part[:, members], axis=1) if len(members) > 1 else part[:, members[0]]
            for part in (past_KA, planned_TA)
        )
        found.append(ShownCommand(f"{label} in {printed_unit(first.unit)}".removesuffix(" in "), past_K, planned_T))
    return tuple(found)


def _telling(commands: Sequence[ShownCommand]) -> list[ShownCommand]:
    """Those that move in the rows shown come first."""
    return sorted(commands, key=lambda one: not np.ptp([*one.past, *one.planned]))[:_MOST_COMMANDS]


def _command_panel(axes: Any, command: ShownCommand, step: float) -> None:
    past, planned = command.past, command.planned
    # A command acts over the row that ends at its time; what is planned goes on from where the machine is.
    axes.step(np.arange(1 - len(past), 1) * step, past, where="pre", color=_PAST, linewidth=1.0)
    axes.step(np.arange(len(planned) + 1) * step, [past[-1], *planned], where="pre", color=COLOURS[1], linewidth=1.2)
    axes.axvline(0.0, color="#888888", linewidth=0.8)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_title(f"{command.label}, as planned", fontsize=9, loc="left")


def _unit(forecast: "Forecast", column: int) -> str:
    return forecast.units[column] if forecast.units else ""
