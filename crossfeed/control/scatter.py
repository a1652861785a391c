"""What one reading of a log is worth: momentary values scatter about the load of their second, means hardly do.

The scatter is the nugget of a variogram: by how much neighbouring rows differ beyond what their distance explains.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_FEWEST = 8  # pairs of rows below which nothing is said about scatter
_MEDIAN = 0.4549  # of a squared standard normal number
_REAL = 2.5  # times the scatter from which on a reading that stands out is believed: an entry, a slot, a hard spot


@dataclass(frozen=True)
class Scatter:
    """The standard deviation of single readings, and the share of it in what neighbouring rows differ by."""

    spread: float = 0.0
    share: float = 0.0

    @classmethod
    def of(cls, load_T: np.ndarray, cutting_T: np.ndarray) -> "Scatter":
        """From the rows of one run whose neighbours are cuts as well; medians, so that entries do not count."""
        near, far = _variation(load_T, cutting_T, 1), _variation(load_T, cutting_T, 2)
        nugget = max(0.0, 2.0 * near - far)
        return cls(float(np.sqrt(nugget)), min(1.0, nugget / near)) if near > 0.0 else cls()

    @classmethod
    def of_runs(cls, loads: Sequence[np.ndarray], cutting_T: np.ndarray) -> "Scatter":
        """What single readings of some runs scatter by, in the mean; nothing where there is none."""
        found = [cls.of(load_T, cutting_T) for load_T in loads]
        if not found:
            return cls()
        return cls(float(np.mean([each.spread for each in found])), float(np.mean([each.share for each in found])))


def smoothed(load_T: np.ndarray, cutting_T: np.ndarray, scatter: Scatter) -> np.ndarray:
    """The loads with as much of each reading's distance from its neighbourhood taken away as is scatter."""
    smooth_T = load_T.copy()
    off_T = (load_T[:-2] + load_T[1:-1] + load_T[2:]) / 3.0 - load_T[1:-1]
    chance_T = cutting_T[:-2] & cutting_T[1:-1] & cutting_T[2:] & (np.abs(off_T) <= _REAL * scatter.spread)
    smooth_T[1:-1] += np.where(chance_T, scatter.share * off_T, 0.0)
    return smooth_T


def _variation(load_T: np.ndarray, cutting_T: np.ndarray, apart: int) -> float:
    """Half the squared difference of rows of one cut that lie so far apart: the variogram, by its median."""
    both_T = np.ones(max(len(load_T) - apart, 0), dtype=bool)
    for shift in range(apart + 1):
        both_T &= cutting_T[shift : shift + len(both_T)]
    differences = (load_T[apart:] - load_T[: len(both_T)])[both_T]
    differences = differences[np.isfinite(differences)]
    return float(np.median(differences**2)) / (2.0 * _MEDIAN) if len(differences) >= _FEWEST else 0.0
