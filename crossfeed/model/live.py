"""Forecasting beside a running machine: one new row in, all horizons out.

K context rows, C sensors, A commands, D latent width, T planned steps.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ConfigError, TableError
from crossfeed.model.forecast import Forecast, check_horizons, forecast_moments, read_commands, to_forecast
from crossfeed.model.instance_norm import Statistics
from crossfeed.model.packed_weights import Precision, packed
from crossfeed.model.rows import check_plausible
from crossfeed.model.world_model import WorldModel


@dataclass(slots=True)
class _Row:
    """One logged row in z-space and, once computed, its vector."""

    x_C: Tensor
    a_A: Tensor
    vector_D: Tensor | None = None


class LiveForecaster:
    """Keeps the last K rows and their vectors, so that a new row costs one row.

    Without instance normalisation the vectors never expire and forecasts are exact. With it, the statistics of the
    window move with every row and with them every vector: at `tolerance` 0 all rows are encoded again, exact and some
    three times slower; above 0 the statistics are held, for input and output alike, until one of them has moved by
    more than `tolerance` z-units. `bfloat16` is quicker on CPUs that have units for it and costs about 0.01 standard
    deviations; benchmarks/forecast.md has the figures.
    """

    def __init__(self, model: WorldModel, tolerance: float = 0.0, precision: Precision = "float32") -> None:
        if tolerance < 0.0:
            raise ConfigError(f"A tolerance of {tolerance} makes no sense.", expected="0 (exact) or a small number")
        self.model, self.tolerance = packed(model.eval(), precision), tolerance
        self._rows: deque[_Row] = deque(maxlen=model.config.context)
        self._held: Statistics | None = None

    @property
    def missing_rows(self) -> int:
        """How many more rows are needed before the first forecast."""
        return self.model.config.context - len(self._rows)

    def reset(self) -> None:
        """Forget the rows, for instance after a gap in the log."""
        self._rows.clear()
        self._held = None

    def push(self, row: Mapping[str, float | None]) -> None:
        """Take the newest row: any subset of the sensors, and every command; the next row comes one period later."""
        schema, normaliser = self.model.schema, self.model.normaliser
        x = np.array([_number(row, name) for name in schema.sensor_names])
        a = np.array([_number(row, name) for name in schema.command_names])
        if not np.isfinite(a).all():
            missing = [name for name, value in zip(schema.command_names, a) if not np.isfinite(value)]
            raise TableError(f"The row lacks the commands {', '.join(missing)}.", expected="a value of every command")
        x, a = normaliser.transform_sensors(x), normaliser.transform_commands(a)
        check_plausible(x, schema.sensor_names, "row")
        check_plausible(a, schema.command_names, "row")
        device = next(self.model.parameters()).device
        x_C, a_A = (torch.from_numpy(values.astype(np.float32)).to(device) for values in (x, a))
        self._rows.append(_Row(x_C, a_A))

    @torch.inference_mode()
    def forecast(self, commands: Any, horizons: Sequence[int] | None = None) -> Forecast:
        """What the machine will do from now on under the planned commands."""
        if self.missing_rows:
            raise TableError(
                f"Only {len(self._rows)} rows were pushed.",
                expected=f"{self.model.config.context}, the context of this model",
                remedy=f"Push {self.missing_rows} more.",
            )
        asked = self.model.horizons if horizons is None else check_horizons(horizons)
        future_1TA = read_commands(self.model, commands, asked)
        x_1KC = torch.stack([row.x_C for row in self._rows]).unsqueeze(0)
        a_1KA = torch.stack([row.a_A for row in self._rows]).unsqueeze(0)
        present_C = x_1KC[0].isfinite().any(0)
        if not bool(present_C.any()):
            raise TableError(
                "None of the rows has a value of a sensor of the model.",
                expected=f"some of {', '.join(self.model.schema.sensor_names)}",
            )
        self._refresh(x_1KC, present_C)
        row_1KD = torch.stack([row.vector_D for row in self._rows if row.vector_D is not None]).unsqueeze(0)
        moments = forecast_moments(self.model, row_1KD, a_1KA, future_1TA, asked, self._held)
        return to_forecast(self.model, *moments, asked, present_C, single=True)

    def _refresh(self, x_1KC: Tensor, present_C: Tensor) -> None:
        """Encode the rows that have no vector; all of them when the window's statistics have moved too far."""
        statistics = self.model.instance_norm.statistics(x_1KC, x_1KC.isfinite())
        if self._held is None or self._moved(statistics):
            self._held = statistics
            if statistics is not None:
                for row in self._rows:
                    row.vector_D = None
        stale = [index for index, row in enumerate(self._rows) if row.vector_D is None]
        channels = self.model.worth_reading(present_C)
        x_1SC = x_1KC[:, stale]
        vector_SD = self.model.encode_rows(x_1SC, x_1SC.isfinite(), self._held, channels)[0]
        for index, vector_D in zip(stale, vector_SD):
            self._rows[index].vector_D = vector_D

    def _moved(self, statistics: Statistics | None) -> bool:
        """Whether centre or scale of any channel differ from the held ones by more than the tolerance."""
        if statistics is None or self._held is None:
            return False
        centre = (statistics.centre_BC - self._held.centre_BC).abs().max()
        scale = (statistics.scale_BC - self._held.scale_BC).abs().max()
        return bool(torch.maximum(centre, scale) > self.tolerance)


def _number(row: Mapping[str, float | None], name: str) -> float:
    value = row.get(name)
    try:
        number = float("nan") if value is None else float(value)
    except (TypeError, ValueError) as error:
        raise TableError(f"The row's '{name}' is {value!r}.", expected="a number, or null") from error
    if np.isinf(number):
        raise TableError(f"The row's '{name}' is infinite.", expected="a finite number, or null")
    return number
