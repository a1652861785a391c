"""Forecasts in physical units: named histories and planned commands in, distributions of named sensors out.

W windows, H horizons, C sensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ConfigError, TableError
from crossfeed.model.instance_norm import Statistics
from crossfeed.model.prediction import standard_quantile
from crossfeed.model.predictor import mean_commands
from crossfeed.model.rows import check_plausible, read_rows

if TYPE_CHECKING:
    import polars

    from crossfeed.model.world_model import WorldModel


@dataclass(frozen=True, eq=False)
class Forecast:
    """A distribution for each window, horizon and sensor, in the sensors' own units.

    Arrays are (H, C) for one window and (W, H, C) for many; `measured` names the sensors the history showed.
    """

    horizons: tuple[int, ...]
    sensors: tuple[str, ...]
    measured: tuple[str, ...]
    mean: np.ndarray
    standard_deviation: np.ndarray
    degrees_of_freedom: np.ndarray | None

    def quantiles(self, levels: Sequence[float]) -> np.ndarray:
        """The values below which the target falls with these probabilities, stacked along a new first axis."""
        outside = [level for level in levels if not 0.0 < level < 1.0]
        if outside or not levels:
            raise ConfigError(f"Quantiles {list(levels)} cannot be given.", expected="levels between 0 and 1")
        dof_C, scale = None, self.standard_deviation
        if self.degrees_of_freedom is not None:
            dof_C = torch.from_numpy(self.degrees_of_freedom)
            scale = scale * np.sqrt((self.degrees_of_freedom - 2.0) / self.degrees_of_freedom)
        like = torch.zeros((), dtype=torch.float64)
        return np.stack([self.mean + scale * standard_quantile(level, dof_C, like).numpy() for level in levels])

    def to_polars(self, levels: Sequence[float] = (0.05, 0.95)) -> "polars.DataFrame":
        """One row per window, horizon and sensor; quantiles in columns named q0.05 and so on."""
        import polars

        shape = self.mean.shape if self.mean.ndim == 3 else (1, *self.mean.shape)
        window, horizon, sensor = (axis.ravel() for axis in np.indices(shape))
        quantiles = dict(zip(levels, self.quantiles(levels))) if levels else {}
        return polars.DataFrame(
            {
                "window": window,
                "horizon": np.array(self.horizons)[horizon],
                "sensor": np.array(self.sensors)[sensor],
                "measured": np.isin(np.array(self.sensors), self.measured)[sensor],
                "mean": self.mean.ravel(),
                "standard_deviation": self.standard_deviation.ravel(),
                **{f"q{level:g}": values.ravel() for level, values in quantiles.items()},
            }
        )


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
    if len(future_WTA) not in (1, len(x_WKC)):
        raise TableError(
            f"There are {len(x_WKC)} histories and {len(future_WTA)} command plans.",
            expected="one plan for each history, or one plan for all",
        )
    future_WTA = future_WTA.expand(len(x_WKC), -1, -1)
    present_C = x_WKC.isfinite().flatten(0, 1).any(0)
    channels = model.worth_reading(present_C)
    was_training = model.training
    model.eval()
    try:
        parts = []
        for start in range(0, len(x_WKC), batch_size):
            rows = slice(start, start + batch_size)
            x_BKC, m_BKC = x_WKC[rows], x_WKC[rows].isfinite()
            statistics = model.instance_norm.statistics(x_BKC, m_BKC)
            row_BKD = model.encode_rows(x_BKC, m_BKC, statistics, channels)
            parts.append(forecast_moments(model, row_BKD, a_WKA[rows], future_WTA[rows], asked, statistics))
    finally:
        model.train(was_training)
    mean_WHC, log_variance_WHC = (torch.cat(side) for side in zip(*parts))
    return to_forecast(model, mean_WHC, log_variance_WHC, asked, present_C, single)


def forecast_moments(
    model: "WorldModel",
    row_BKD: Tensor,
    a_BKA: Tensor,
    future_BTA: Tensor,
    horizons: tuple[int, ...],
    statistics: Statistics | None,
) -> tuple[Tensor, Tensor]:
    """From encoded rows and planned commands to mean and log-variance in z-space."""
    z_BD = model.context_encoder.state(row_BKD, a_BKA)
    latent_BHD = model.predict(z_BD, mean_commands(future_BTA, horizons), future_BTA, horizons)
    return model.moments(latent_BHD, statistics)


def to_forecast(
    model: "WorldModel",
    mean_WHC: Tensor,
    log_variance_WHC: Tensor,
    horizons: tuple[int, ...],
    present_C: Tensor,
    single: bool,
) -> Forecast:
    """Moments in z-space as a forecast in physical units."""
    mean = model.normaliser.inverse_sensors(mean_WHC.double().cpu().numpy())
    deviation = torch.exp(0.5 * log_variance_WHC.double()).cpu().numpy() * model.normaliser.sensor_scale
    dof_C, names = model.head.degrees_of_freedom, model.schema.sensor_names
    return Forecast(
        horizons=horizons,
        sensors=names,
        measured=tuple(name for name, present in zip(names, present_C.tolist()) if present),
        mean=mean[0] if single else mean,
        standard_deviation=deviation[0] if single else deviation,
        degrees_of_freedom=None if dof_C is None else dof_C.detach().double().cpu().numpy(),
    )


def read_history(model: "WorldModel", history: Any) -> tuple[Tensor, Tensor, bool]:
    """The last K rows in z-space: sensors (NaN where absent), commands, and whether it was a single window."""
    sensors, commands, context = model.schema.sensor_names, model.schema.command_names, model.config.context
    values, single = read_rows(history, sensors + commands, "history")
    if values.shape[1] < context:
        raise TableError(
            f"The history has {values.shape[1]} rows.",
            expected=f"at least {context}, the context of this model",
            remedy="Wait until enough rows were logged, or give a longer history.",
        )
    values = values[:, -context:]
    x, a = values[..., : len(sensors)], values[..., len(sensors) :]
    if not np.isfinite(x).any(axis=(1, 2)).all():
        raise TableError(
            f"A history window has no measured value of any sensor of the model ({', '.join(sensors)}).",
            expected="at least one of them",
            remedy="Rename the columns to the names of the model's schema.",
        )
    _check_commands(a, commands, "history")
    z, command_z = model.normaliser.transform_sensors(x), model.normaliser.transform_commands(a)
    check_plausible(z, sensors, "history")
    check_plausible(command_z, commands, "history")
    return _tensor(model, z), _tensor(model, command_z), single


def read_commands(model: "WorldModel", commands: Any, horizons: tuple[int, ...]) -> Tensor:
    """Planned commands in z-space, as many steps as the longest horizon asked for."""
    names, longest = model.schema.command_names, max(horizons)
    values, _ = read_rows(commands, names, "planned commands")
    if values.shape[1] < longest:
        raise TableError(
            f"Commands are planned for {values.shape[1]} steps, but horizon {longest} was asked for.",
            expected=f"at least {longest} rows of planned commands",
            remedy="Plan further ahead, or ask for shorter horizons.",
        )
    values = values[:, :longest]
    _check_commands(values, names, "planned commands")
    z = model.normaliser.transform_commands(values)
    check_plausible(z, names, "planned commands")
    return _tensor(model, z)


def check_horizons(horizons: Sequence[int]) -> tuple[int, ...]:
    """Whole numbers of rows from 1 on, at least one of them."""
    if not horizons or any(int(horizon) != horizon or horizon < 1 for horizon in horizons):
        raise ConfigError(f"Horizons {list(horizons)} cannot be asked for.", expected="whole numbers from 1 on")
    return tuple(int(horizon) for horizon in horizons)


def _check_commands(values: np.ndarray, names: tuple[str, ...], what: str) -> None:
    missing = [name for name, bad in zip(names, ~np.isfinite(values).all(axis=(0, 1))) if bad]
    if missing:
        raise TableError(
            f"The {what} lacks values of {', '.join(missing)}.",
            expected=f"a value of every command ({', '.join(names)}) in every row",
            remedy="A command that does not exist on this machine is held at its idle value, usually 0.",
        )


def _tensor(model: "WorldModel", values: np.ndarray) -> Tensor:
    return torch.from_numpy(values.astype(np.float32)).to(next(model.parameters()).device)
