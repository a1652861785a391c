"""Intervals that follow the machine: their widths grow and shrink with the errors found so far.

H horizons, C sensors, L levels.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from crossfeed.distribution import Distribution, Quantiles
from crossfeed.evaluation.conformal import ForecastTrace, adaptive_widths, centre_and_spread
from crossfeed.evaluation.metrics import LEVELS
from crossfeed.live.row import Row
from crossfeed.model.forecast import Forecast

_TRACKED = 300  # forecasts whose errors are looked at


class TrackedIntervals:
    """Intervals whose widths follow the errors found so far, so that in the long run they hold what they promise."""

    def __init__(self, horizons: Sequence[int], period: float) -> None:
        self._horizons, self._period = tuple(horizons), period
        self._made: deque[tuple[int, np.ndarray, np.ndarray]] = deque(maxlen=_TRACKED)

    def widen(self, row: Row, forecast: Forecast, rows: Sequence[Row]) -> Forecast:
        """The forecast with tracked widths, which use only rows that have come."""
        centre, spread = (one.numpy() for one in centre_and_spread(forecast.distribution))
        self._made.append((round(row.time / self._period), centre, spread))
        stream = self._trace(forecast.sensors, rows)
        width_LHC = adaptive_widths(stream, self._horizons)[-1]
        return replace(forecast, distribution=_widened(forecast.distribution, width_LHC))

    def _trace(self, names: Sequence[str], rows: Sequence[Row]) -> ForecastTrace:
        by_number = {round(row.time / self._period): row for row in rows}
        clock = np.array([number for number, _, _ in self._made])
        x = np.full((len(clock), len(self._horizons), len(names)), np.nan)
        for index, number in enumerate(clock.tolist()):
            for position, horizon in enumerate(self._horizons):
                if (row := by_number.get(number + horizon)) is not None:
                    x[index, position] = row.floats(names)
        centre, spread = (np.stack([made[part] for made in self._made]) for part in (1, 2))
        return ForecastTrace(clock, centre, spread, x, np.isfinite(x))


def _widened(distribution: Distribution, width_LHC: np.ndarray) -> Quantiles:
    """The same median and mean with intervals of `width` predicted standard deviations to either side."""
    centre, spread = centre_and_spread(distribution)
    # Higher levels must not lie inside lower ones, whatever the widths were tracked to.
    widths = torch.from_numpy(np.maximum.accumulate(width_LHC, axis=0))
    pairs = list(zip(sorted(LEVELS), widths, strict=True))
    below = [(0.5 - level / 2.0, centre - width * spread) for level, width in reversed(pairs)]
    above = [(0.5 + level / 2.0, centre + width * spread) for level, width in pairs]
    levels, values = zip(*below, (0.5, centre), *above, strict=True)
    return Quantiles(levels, torch.stack(values, -1), distribution.plain().mean)
