"""Intervals that cover, on top of any forecaster: learned once from a few observed runs, or tracked while running.

N windows in time order, H horizons, C channels, L levels. Scores are |error of the median| / predicted
standard deviation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import TableError
from crossfeed.evaluation.metrics import LEVELS, EvaluationSet, Scores
from crossfeed.evaluation.statistics import conformal_rank
from crossfeed.model.distribution import Distribution
from crossfeed.windows.windows import WindowSet

CALIBRATION_RUNS = 2


@dataclass(frozen=True)
class ForecastTrace:
    """What a forecaster said about windows in time order, and what happened; `clock` is the row of each window's t."""

    clock_N: np.ndarray
    centre_NHC: np.ndarray
    spread_NHC: np.ndarray
    x_NHC: np.ndarray
    present_NHC: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """Absolute errors in predicted standard deviations; NaN where nothing was measured."""
        error = np.abs(self.x_NHC - self.centre_NHC) / self.spread_NHC
        return np.asarray(np.where(self.present_NHC, error, np.nan))

    def select(self, chosen_N: np.ndarray) -> "ForecastTrace":
        """Some of the windows, still in order."""
        parts = (self.clock_N, self.centre_NHC, self.spread_NHC, self.x_NHC, self.present_NHC)
        return ForecastTrace(*(values[chosen_N] for values in parts))


class ForecastRecorder:
    """Keeps what a forecaster says while it is evaluated; to be among those `on_forecast` of `evaluate`."""

    def __init__(self, windows: WindowSet) -> None:
        self._windows = windows
        self._parts: list[tuple[Tensor, Tensor, Tensor]] = []

    def __call__(self, part: Tensor, forecast: Distribution) -> None:
        self._parts.append((part, *centre_and_spread(forecast)))

    def trace(self) -> tuple[Tensor, ForecastTrace]:
        """Window numbers in time order, and the trace in that order."""
        index, centre, spread = (torch.cat(columns) for columns in zip(*self._parts, strict=True))
        order = self._windows.last_W.cpu()[index].argsort(stable=True)
        index, centre, spread = index[order], centre[order], spread[order]
        batch = self._windows.batch(index.to(self._windows.last_W.device))
        x, present = batch.future_x_BHC.cpu().double().numpy(), batch.future_m_BHC.cpu().numpy()
        return index, ForecastTrace(batch.last_index_B.cpu().numpy(), centre.numpy(), spread.numpy(), x, present)


def centre_and_spread(forecast: Distribution) -> tuple[Tensor, Tensor]:
    """Median and standard deviation in double precision on the CPU: what intervals are built around and from."""
    plain = forecast.plain()
    return plain.median, plain.standard_deviation


def split_widths(score_NHC: np.ndarray, levels: Sequence[float] = LEVELS) -> tuple[np.ndarray, np.ndarray]:
    """Widths L H C in predicted standard deviations that cover the observed scores, and where they are borrowed."""
    # The highest level needs most observations, so it comes first: its complaint is the one that helps.
    widths, borrowed = zip(*(_widths_of(score_NHC, level) for level in sorted(levels, reverse=True)), strict=True)
    return np.stack(widths[::-1]), np.any(borrowed, axis=0)


def _widths_of(score_NHC: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The conformal quantile of each horizon and channel, and where it was borrowed from all channels."""
    horizons, channels = score_NHC.shape[1:]
    width, borrowed = np.empty((horizons, channels)), np.zeros((horizons, channels), dtype=bool)
    for horizon in range(horizons):
        together = _conformal_quantile(score_NHC[:, horizon].ravel(), level)
        if together is None:
            raise TableError(
                f"{np.isfinite(score_NHC[:, horizon]).sum()} observed values are too few for {level:.0%} intervals.",
                expected=f"at least {math.ceil(level / (1.0 - level) - 1e-9)} observed values at every horizon",
                remedy="Calibrate on more or longer runs, or ask for lower levels.",
            )
        for channel in range(channels):
            own = _conformal_quantile(score_NHC[:, horizon, channel], level)
            width[horizon, channel] = together if own is None else own
            borrowed[horizon, channel] = own is None
    return width, borrowed


def _conformal_quantile(scores: np.ndarray, level: float) -> float | None:
    """The smallest score that covers a further one with at least that probability."""
    scores = scores[np.isfinite(scores)]
    rank = conformal_rank(len(scores), level)
    return None if rank > len(scores) else float(np.partition(scores, rank - 1)[rank - 1])


def adaptive_widths(
    stream: ForecastTrace, horizons: Sequence[int], levels: Sequence[float] = LEVELS, rate: float = 0.05
) -> np.ndarray:
    """Widths N L H C tracked while the stream runs, each using only what had been observed at its own time.

    A width is a multiple of the channel's recent mean score. After every observed miss the multiple grows by `rate` *
    level, after every hit it shrinks by `rate` * (1 - level), so the long-run share of misses is right whatever the
    machine does. A value at t + h is observed at t + h, not before. It begins with Gaussian widths.
    """
    score_NHC = stream.scores
    count, _, channels = score_NHC.shape
    level_L1 = np.asarray(sorted(levels))[:, None]
    gaussian_L1 = torch.special.ndtri(torch.tensor((1.0 + level_L1) / 2.0)).numpy()
    widths = np.empty((count, len(level_L1), len(horizons), channels))
    for position, horizon in enumerate(horizons):
        multiple_LC = np.repeat(gaussian_L1, channels, axis=1)
        recent_C, observed = np.ones(channels), 0
        for now in range(count):
            while stream.clock_N[observed] + horizon <= stream.clock_N[now]:
                score_C = score_NHC[observed, position]
                seen = np.isfinite(score_C)
                missed_LC = score_C > widths[observed, :, position]
                step_LC = rate * np.where(missed_LC, level_L1, level_L1 - 1.0) * seen
                # Held at zero: what was too wide during exact silence must not be paid back afterwards.
                multiple_LC = np.maximum(multiple_LC + step_LC, 0.0)
                # One spike must not blow the scale up: at most ten times the recent mean counts, or 1 after silence.
                clipped_C = np.minimum(score_C, np.maximum(10.0 * recent_C, 1.0))
                recent_C = np.where(seen, recent_C + rate * (clipped_C - recent_C), recent_C)
                observed += 1
            widths[now, :, position] = multiple_LC * recent_C
    return widths


def coverage(stream: ForecastTrace, width_NLHC: np.ndarray) -> np.ndarray:
    """Share of present entries inside the tracked intervals, for each level."""
    score_NHC = stream.scores
    inside = (score_NHC[:, None] <= width_NLHC) & np.isfinite(score_NHC)[:, None]
    return np.asarray(inside.sum((0, 2, 3)) / max(int(np.isfinite(score_NHC).sum()), 1))


def conformal_coverage(record: ForecastRecorder, scores: Scores, data: EvaluationSet) -> dict[str, Any]:
    """What conformal layers would mend, by level: coverage as it is, and with intervals tracked while running.

    A layer calibrated on the first runs is judged on the others.
    """
    index, stream = record.trace()
    tracked = coverage(stream, adaptive_widths(stream, data.windows.horizons))
    result: dict[str, Any] = {"adaptive": _by_level(tracked)}
    calibrating = (data.run_W[index] < CALIBRATION_RUNS).numpy()
    if calibrating.all() or not calibrating.any():
        return result | {"split": f"needs windows in the first {CALIBRATION_RUNS} runs and in others"}
    try:
        width_LHC, borrowed = split_widths(stream.scores[calibrating])
    except TableError as error:
        return result | {"split": error.found}
    others = stream.select(~calibrating)
    as_is = scores.metrics(run=data.runs[CALIBRATION_RUNS:])
    return result | {
        "as_is": {f"{level:g}": as_is[f"coverage{100 * level:.0f}"] for level in LEVELS},
        "split": {
            **_by_level(coverage(others, width_LHC[None])),
            "calibrated_on": list(data.runs[:CALIBRATION_RUNS]),
            "borrowed": int(borrowed.sum()),
        },
    }


def _by_level(shares: np.ndarray) -> dict[str, float]:
    return {f"{level:g}": float(share) for level, share in zip(LEVELS, shares, strict=True)}
