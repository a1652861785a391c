"""Forecasts in physical units: named histories and planned commands in, distributions of named sensors out.

W windows, H horizons, C sensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ConfigError
from crossfeed.model.distribution import Distribution
from crossfeed.model.interface import Plan
from crossfeed.processes import wide_products
from crossfeed.rows import check_horizons, check_levels, check_plans, check_plausible, read_plan
from crossfeed.rows import read_history as read_history_rows
from crossfeed.show.figures import INK, XY, Band, Figure, Line, printed_unit
from crossfeed.show.tables import ResultTable, ShownByTables, plain_table, significant

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure as Drawn

    from crossfeed.model.world_model import WorldModel
    from crossfeed.schema import Schema

_MOST_PANELS, _MOST_COMMANDS = 6, 2


@dataclass(frozen=True, eq=False)
class ShownCommand:
    """A command, or the path speed of all feeds, as it was given up to now and as it is planned."""

    label: str
    past: np.ndarray  # (rows,), the last one is now
    planned: np.ndarray  # (rows,) from the next row on


@dataclass(frozen=True, eq=False)
class Shown:
    """What is shown beside a forecast: the last measured rows, what followed where that is known, title, warnings."""

    past: np.ndarray  # (rows, C), the last one is now
    truth: np.ndarray | None = None  # (rows, C) from the next row on
    title: str = ""
    commands: tuple[ShownCommand, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(ShownByTables):
    """A distribution for each window, horizon and sensor, in the sensors' own units.

    Arrays are (H, C) for one window and (W, H, C) for many; `measured` names the sensors the history showed, `units`
    belong to `sensors`, `period` is the time between two rows in seconds where it is known.

    Examples:
        >>> import crossfeed as cf
        >>> rows = cf.Table.read("a.parquet").to_polars()
        >>> forecast = cf.load("run").forecast(rows[:32], rows[32:48])
        >>> low, high = forecast.interval(0.9)
        >>> bool((low <= forecast.median).all() and (forecast.median <= high).all())
        True
        >>> forecast.to_pandas().query("sensor == 'spindle_power'")["seconds"].tolist()
        [1.0, 2.0, 4.0, 8.0, 16.0]
        >>> forecast.plot().savefig("forecast.png")
    """

    horizons: tuple[int, ...]
    sensors: tuple[str, ...]
    measured: tuple[str, ...]
    distribution: Distribution
    units: tuple[str, ...] = ()
    period: float | None = None
    shown: Shown | None = None

    @property
    def mean(self) -> np.ndarray:
        """The expected value: the best guess where large errors hurt more than their size."""
        return self.distribution.mean.numpy()

    @cached_property
    def median(self) -> np.ndarray:
        """The value that is as likely exceeded as not: the best guess for the absolute error."""
        return self.distribution.median.numpy()

    @property
    def standard_deviation(self) -> np.ndarray:
        """The spread around the mean."""
        return self.distribution.standard_deviation.numpy()

    def quantile(self, level: float) -> np.ndarray:
        """The value below which the target falls with this probability."""
        return np.asarray(self.quantiles([level])[0])

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the central interval that holds the target with this probability."""
        check_levels([level])
        return self.quantile(0.5 - level / 2.0), self.quantile(0.5 + level / 2.0)

    def quantiles(self, levels: Sequence[float]) -> np.ndarray:
        """The values below which the target falls with these probabilities, stacked along a new first axis."""
        check_levels(levels)
        return self.distribution.quantiles(levels).numpy()

    def to_polars(self, levels: Sequence[float] = (0.05, 0.95)) -> "polars.DataFrame":
        """One row per window, horizon and sensor; quantiles in columns named q0.05 and so on."""
        import polars

        shape = self.mean.shape if self.mean.ndim == 3 else (1, *self.mean.shape)
        window, horizon, sensor = (axis.ravel() for axis in np.indices(shape))
        rows_ahead = np.array(self.horizons)[horizon]
        quantiles = dict(zip(levels, self.quantiles(levels))) if levels else {}
        columns = {
            "window": window,
            "horizon": rows_ahead,
            **({"seconds": rows_ahead * self.period} if self.period is not None else {}),
            "sensor": np.array(self.sensors)[sensor],
            **({"unit": np.array(self.units)[sensor]} if self.units else {}),
            "measured": np.isin(np.array(self.sensors), self.measured)[sensor],
            "mean": self.mean.ravel(),
            "median": self.median.ravel(),
            "standard_deviation": self.standard_deviation.ravel(),
            **{f"q{level:g}": values.ravel() for level, values in quantiles.items()},
        }
        return polars.DataFrame(columns)

    def to_pandas(self, levels: Sequence[float] = (0.05, 0.95)) -> Any:
        """The same rows as a pandas frame."""
        from crossfeed.logs.frames import to_pandas

        return to_pandas(self.to_polars(levels))

    def plot(self, sensors: Sequence[str] | str = ()) -> "Drawn":
        """A figure of one window: the past, the median and the intervals of 50 and 90 % of the named sensors."""
        from crossfeed.show.drawing import draw

        return draw(self.figure([sensors] if isinstance(sensors, str) else sensors))

    def figures(self) -> list[Figure]:
        """The same as data, where the forecast is of one window."""
        return [self.figure()] if self.mean.ndim == 2 else []

    def figure(self, sensors: Sequence[str] = ()) -> Figure:
        """One panel per sensor: measured rows, then median and intervals at each horizon; the commands below."""
        if self.mean.ndim == 3:
            raise ConfigError(
                f"A figure shows one window, not {self.mean.shape[0]}.", expected="the forecast of one history"
            )
        unknown = [name for name in sensors if name not in self.measured]
        if unknown:
            raise ConfigError(
                f"The forecast does not show '{unknown[0]}'.", expected=f"some of {', '.join(self.measured)}"
            )
        spindle_first = sorted(self.measured, key=lambda name: not name.startswith("spindle"))
        chosen, shown = list(sensors) or spindle_first[:_MOST_PANELS], self.shown
        # Commands that move in the rows shown come first.
        standing = sorted(shown.commands if shown else (), key=lambda part: not np.ptp([*part.past, *part.planned]))
        panels = [_panel(self, name) for name in chosen]
        panels += [_command_panel(command, self) for command in standing[:_MOST_COMMANDS]]
        legend = [("median", 0, "line"), ("90 %, darker 50 %", 0, "band")]
        legend += [("measured", INK, "line")] if shown else []
        legend += [("what followed", INK, "dashed")] if shown and shown.truth is not None else []
        return Figure("forecast", shown.title if shown else "", tuple(panels), tuple(legend))

    def tables(self) -> list[ResultTable]:
        """Median and central 90 % interval of every measured sensor at every horizon; of many windows what there is."""
        period = self.period
        ahead = [f"{rows} rows" if period is None else f"{rows * period:g} s" for rows in self.horizons]
        if self.mean.ndim == 3:
            what = f"{self.mean.shape[0]:,} windows, {len(self.measured)} measured sensors, {', '.join(ahead)} ahead"
            see = "See to_pandas(), to_polars(), mean, median, quantile(0.9) and interval(0.9)."
            return [plain_table(f"Forecasts of {what}", (), (), (see,))]
        low_HC, high_HC = self.interval(0.9)
        rows = []
        for name in self.measured:
            column = self.sensors.index(name)
            values = zip(self.median[:, column], low_HC[:, column], high_HC[:, column])
            cells = [
                f"{significant(middle)}\n{significant(low)} to {significant(high)}" for middle, low, high in values
            ]
            rows.append([name, _unit(self, column), *cells])
        absent = [name for name in self.sensors if name not in self.measured]
        remarks = [f"not measured in the history, so not shown: {', '.join(absent)}"] if absent else []
        remarks += [f"warning: {text}" for text in (self.shown.warnings if self.shown else ())]
        where = self.shown.title if self.shown is not None and self.shown.title else "Forecast"
        title = f"{where}: median, and below it the interval that holds 90 %"
        return [plain_table(title, ("sensor", "unit", *ahead), rows, remarks, words=2)]


@wide_products()
@torch.inference_mode()
def forecast(
    model: "WorldModel", history: Any, commands: Any, horizons: Sequence[int] | None = None, batch_size: int = 128
) -> Forecast:
    """Forecast one window or many.

    `history`: at least `context` rows of sensors (any subset, any order, null = not measured) and of all commands, the
    last one being now. `commands`: the planned commands, one row per step, at least as many as the longest horizon.
    Each is a polars or pandas frame, a dict of columns, a list of those, or an array in schema order.
    """
    asked = model.horizons if horizons is None else check_horizons(horizons)
    x_WKC, a_WKA, single = read_history(model, history)
    future_WTA = read_commands(model, commands, asked)
    check_plans(len(x_WKC), len(future_WTA))
    future_WTA = future_WTA.expand(len(x_WKC), -1, -1)
    present_C = x_WKC.isfinite().flatten(0, 1).any(0)
    channels = model.channels_to_read(present_C)
    was_training = model.training
    model.eval()
    try:
        parts = []
        for start in range(0, len(x_WKC), batch_size):
            rows = slice(start, start + batch_size)
            x_BKC = x_WKC[rows]
            context = model.encode(x_BKC, x_BKC.isfinite(), a_WKA[rows], channels)
            parts.append(model.decode(context, Plan.under(future_WTA[rows], asked)).distribution)
    finally:
        model.train(was_training)
    return to_forecast(model, Distribution.concatenate(parts), asked, present_C, single)


def to_forecast(
    model: "WorldModel", distribution: Distribution, horizons: tuple[int, ...], present_C: Tensor, single: bool
) -> Forecast:
    """What the model said in z-space, in physical units."""
    normaliser, names = model.normaliser, model.schema.sensor_names
    physical = distribution.rescaled(torch.tensor(normaliser.sensor_location), torch.tensor(normaliser.sensor_scale))
    return Forecast(
        horizons=horizons,
        sensors=names,
        measured=tuple(name for name, present in zip(names, present_C.tolist()) if present),
        distribution=physical[0] if single else physical,
        units=tuple(channel.unit for channel in model.schema.sensors),
    )


def read_history(model: "WorldModel", history: Any) -> tuple[Tensor, Tensor, bool]:
    """The last K rows in z-space: sensors (NaN where absent), commands, and whether it was a single window."""
    sensors, commands = model.schema.sensor_names, model.schema.command_names
    x, a, single = read_history_rows(history, sensors, commands, model.config.context)
    z, command_z = model.normaliser.transform_sensors(x), model.normaliser.transform_commands(a)
    check_plausible(z, sensors, "history")
    check_plausible(command_z, commands, "history")
    return _tensor(model, z), _tensor(model, command_z), single


def read_commands(model: "WorldModel", commands: Any, horizons: tuple[int, ...]) -> Tensor:
    """Planned commands in z-space, as many steps as the longest horizon asked for."""
    names = model.schema.command_names
    z = model.normaliser.transform_commands(read_plan(commands, names, max(horizons)))
    check_plausible(z, names, "planned commands")
    return _tensor(model, z)


def _tensor(model: "WorldModel", values: np.ndarray) -> Tensor:
    return torch.from_numpy(values.astype(np.float32)).to(model.device)


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
    shown = []
    for members in schema.command_groups:
        first = schema.commands[members[0]]
        label = f"path {first.quantity}" if len(members) > 1 else first.name.replace("_", " ")
        past_K, planned_T = (
            np.linalg.norm(part[:, members], axis=1) if len(members) > 1 else part[:, members[0]]
            for part in (past_KA, planned_TA)
        )
        shown.append(ShownCommand(f"{label} in {printed_unit(first.unit)}".removesuffix(" in "), past_K, planned_T))
    return tuple(shown)


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
