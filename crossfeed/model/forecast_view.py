"""A forecast as columns, as a table to read and as a figure.

W windows, H horizons, C sensors.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crossfeed.errors import ConfigError
from crossfeed.model.forecast import ShownCommand
from crossfeed.show.figures import INK, XY, Band, Figure, Line, printed_unit
from crossfeed.show.tables import ResultTable, plain_table, significant

if TYPE_CHECKING:
    from crossfeed.model.forecast import Forecast
    from crossfeed.schema import Schema

_MOST_PANELS, _MOST_COMMANDS = 6, 2


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


def figure(forecast: "Forecast", sensors: Sequence[str] = ()) -> Figure:
    """One panel per sensor: measured rows, then median and intervals at each horizon; the commands below."""
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
    chosen, shown = list(sensors) or spindle_first[:_MOST_PANELS], forecast.shown
    commands = _telling(shown.commands if shown is not None else ())
    panels = [_panel(forecast, name) for name in chosen]
    panels += [_command_panel(command, forecast) for command in commands]
    legend = [("median", 0, "line"), ("90 %, darker 50 %", 0, "band")]
    legend += [("measured", INK, "line")] if shown is not None else []
    legend += [("what followed", INK, "dashed")] if shown is not None and shown.truth is not None else []
    return Figure("forecast", shown.title if shown is not None else "", tuple(panels), tuple(legend))


def _panel(forecast: "Forecast", name: str) -> XY:
    step, column, shown, lines = forecast.period or 1.0, forecast.sensors.index(name), forecast.shown, []
    time = [rows * step for rows in forecast.horizons]
    low_H, lower_H, median_H, upper_H, high_H = forecast.quantiles((0.05, 0.25, 0.5, 0.75, 0.95))[..., column].tolist()
    if shown is not None:
        past = shown.past[:, column].tolist()
        lines.append(Line("measured", _seconds(1 - len(past), 1, step), past, INK))
        if shown.truth is not None:
            truth = shown.truth[: max(forecast.horizons), column].tolist()
            lines.append(Line("what followed", _seconds(1, len(truth) + 1, step), truth, INK, "dashed"))
    bands = (Band("90 %", time, low_H, high_H, 0, True), Band("50 %", time, lower_H, upper_H, 0))
    title = f"{name.replace('_', ' ')} in {printed_unit(_unit(forecast, column))}".removesuffix(" in ")
    return XY(title, _ahead(forecast), "", (*lines, Line("median", time, median_H, 0, "marked")), bands, moment=0.0)


def _seconds(first: int, end: int, step: float) -> list[float]:
    return [row * step for row in range(first, end)]


def _ahead(forecast: "Forecast") -> str:
    return "rows from now" if forecast.period is None else "seconds from now"


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


def _command_panel(command: ShownCommand, forecast: "Forecast") -> XY:
    past, step = command.past.tolist(), forecast.period or 1.0
    # A command acts over the row that ends at its time; what is planned goes on from where the machine is.
    planned = [past[-1], *command.planned.tolist()]
    lines = (
        Line("measured", _seconds(1 - len(past), 1, step), past, INK, "step"),
        Line("planned", _seconds(0, len(planned), step), planned, 1, "step"),
    )
    return XY(f"{command.label}, as planned", _ahead(forecast), "", lines, moment=0.0, low=True)


def _unit(forecast: "Forecast", column: int) -> str:
    return forecast.units[column] if forecast.units else ""
